"""Adds ceilings and objectives that people set on pages."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "stored_policies",
        sa.Column("kind", _TEXT, primary_key=True),
        sa.Column("name", _TEXT, primary_key=True),
        sa.Column("fields", _TEXT, nullable=False),
        sa.Column("changed_by", _TEXT, nullable=False),
        sa.Column("changed_at", _BIG, nullable=False),
        sqlite_strict=True,
    )
