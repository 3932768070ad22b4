"""Adds the parts of the fast path that people turned off."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "fast_path_switches",
        sa.Column("team", _TEXT, primary_key=True),
        sa.Column("feature", _TEXT, primary_key=True),
        sa.Column("part", _TEXT, primary_key=True),
        sa.Column("changed_by", _TEXT, nullable=False),
        sa.Column("changed_at", _BIG, nullable=False),
        sqlite_strict=True,
    )
