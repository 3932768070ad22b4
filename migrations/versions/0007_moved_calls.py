"""The calls that were moved, found without reading all others."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

MOVED = sa.text("moved IS NOT NULL AND final = 1")


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        op.create_index("calls_moved", "calls", ["call_id"], sqlite_where=MOVED)
        return
    # It reads every call twice, and waits for whoever writes or reads: none of them waits for it.
    with op.get_context().autocommit_block():
        op.execute("SET statement_timeout = 0")
        op.execute("SET lock_timeout = '10min'")
        # One that was broken off leaves an index that is never used.
        op.drop_index("calls_moved", "calls", postgresql_concurrently=True, if_exists=True)
        op.create_index(
            "calls_moved",
            "calls",
            ["call_id"],
            postgresql_where=MOVED,
            postgresql_concurrently=True,
        )
        op.execute("SET lock_timeout = '10s'")
        op.execute("SET statement_timeout = '10min'")


def downgrade() -> None:
    op.drop_index("calls_moved", "calls")
