"""Adds the texts that teams keep here and name in calls."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "contexts",
        sa.Column("team", _TEXT, primary_key=True),
        sa.Column("name", _TEXT, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("text", _TEXT, nullable=False),
        sa.Column("digest", _TEXT, nullable=False),
        sa.Column("bytes", _BIG, nullable=False),
        sa.Column("tokens", _BIG, nullable=False),
        sa.Column("made", _BIG, nullable=False),
        sqlite_strict=True,
    )
