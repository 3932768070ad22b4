"""Adds an upstream's own words on a failed attempt."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("calls", sa.Column("upstream_error", _TEXT))
