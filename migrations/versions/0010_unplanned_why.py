"""A column for the reason that planning sent a call unmodified."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    # Nullable: neither database rewrites the calls that are there, of which nobody knows it.
    op.add_column("calls", sa.Column("unplanned_why", TEXT))


def downgrade() -> None:
    op.drop_column("calls", "unplanned_why")
