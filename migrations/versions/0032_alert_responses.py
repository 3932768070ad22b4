"""Adds what people did about alerts: who looks at one, and until when it is snoozed."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "alert_responses",
        sa.Column("alert", _TEXT, nullable=False),
        sa.Column("action", _TEXT, nullable=False),
        sa.Column("at", _BIG, nullable=False),
        sa.Column("who", _TEXT, nullable=False),
        sa.Column("until", _BIG),
        sa.PrimaryKeyConstraint("alert", "action", "at", name="alert_responses_pk"),
        sqlite_strict=True,
    )
