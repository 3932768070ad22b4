"""The table of budgets that people set on pages."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "stored_budgets",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("changed_by", TEXT, nullable=False),
        sa.Column("changed_at", BIG, nullable=False),
        sa.PrimaryKeyConstraint("name", name="stored_budgets_pk"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    op.drop_table("stored_budgets")
