"""The provider's own id of each request, which its support asks for."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    # Nullable: neither database rewrites the calls that are there, of which nobody knows it.
    op.add_column("calls", sa.Column("upstream_request_id", TEXT))


def downgrade() -> None:
    op.drop_column("calls", "upstream_request_id")
