"""A column for what planning should have saved of each call, by what caches should hold."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    # Nullable: neither database rewrites the calls that are there, of which nobody knows it.
    op.add_column("calls", sa.Column("planning_nanos", BIG))


def downgrade() -> None:
    op.drop_column("calls", "planning_nanos")
