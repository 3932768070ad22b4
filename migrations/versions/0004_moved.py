"""Columns for the reason of a reroute, and a table of pins that people set."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    # Nullable: neither database rewrites the calls that are there.
    op.add_column("calls", sa.Column("moved", TEXT))
    op.create_table(
        "pins",
        sa.Column("objective", TEXT, primary_key=True),
        sa.Column("made", BIG, primary_key=True, autoincrement=False),
        sa.Column("level", sa.Integer, nullable=False),
        sa.Column("until", BIG, nullable=False),
        sa.Column("why", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sqlite_strict=True,
    )


def downgrade() -> None:
    op.drop_table("pins")
    op.drop_column("calls", "moved")
