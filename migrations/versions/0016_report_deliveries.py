"""The table of scheduled reports: each period's delivery to each recipient."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "report_deliveries",
        sa.Column("report", TEXT, nullable=False),
        sa.Column("ends", TEXT, nullable=False),
        sa.Column("recipient", TEXT, nullable=False),
        sa.Column("begins", TEXT, nullable=False),
        sa.Column("due", BIG),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("sent", BIG),
        sa.Column("why", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("report", "ends", "recipient", name="report_deliveries_pk"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    op.drop_table("report_deliveries")
