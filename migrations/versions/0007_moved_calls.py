"""The calls that were moved, found without reading all others."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

MOVED = sa.text("moved IS NOT NULL AND final = 1")


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("SET LOCAL statement_timeout = 0")  # it reads every call once
    op.create_index("calls_moved", "calls", ["call_id"], sqlite_where=MOVED, postgresql_where=MOVED)


def downgrade() -> None:
    op.drop_index("calls_moved", "calls")
