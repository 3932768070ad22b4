"""Adds the purges of kept answers."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "answer_purges",
        sa.Column("team", _TEXT, primary_key=True),
        sa.Column("scope", _TEXT, primary_key=True),
        sa.Column("name", _TEXT, primary_key=True),
        sa.Column("purged_at", _BIG, nullable=False),
        sqlite_strict=True,
    )
