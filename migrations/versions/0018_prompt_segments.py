"""A column for the segments of a call's prompt, and where its cache marks stood."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    # Nullable: neither database rewrites the calls that are there, of which nobody knows it.
    op.add_column("calls", sa.Column("segments", TEXT))


def downgrade() -> None:
    op.drop_column("calls", "segments")
