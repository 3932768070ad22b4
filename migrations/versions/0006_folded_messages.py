"""Number of messages facts stood for in each call that was sent shorter."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    # Nullable: neither database rewrites the calls that are there, of which nobody knows it.
    op.add_column("calls", sa.Column("folded_messages", BIG))


def downgrade() -> None:
    op.drop_column("calls", "folded_messages")
