"""Adds the tags of calls, as JSON."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("calls", sa.Column("tags", _TEXT))
