"""The times that replicas of engines ran."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "replica_runs",
        sa.Column("upstream", TEXT, nullable=False),
        sa.Column("began", BIG, nullable=False),
        sa.Column("ended", BIG, nullable=False),
        sa.PrimaryKeyConstraint("upstream", "began", name="replica_runs_pk"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    op.drop_table("replica_runs")
