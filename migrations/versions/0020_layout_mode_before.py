"""A column for the mode that approving a layout replaced, which rolling it back restores."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    # Nullable: nobody knows the mode before approvals that were made already.
    op.add_column("layouts", sa.Column("mode_before", TEXT))


def downgrade() -> None:
    op.drop_column("layouts", "mode_before")
