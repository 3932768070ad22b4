"""A table with one row: the last comparison of control arms, which takes long to make."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "arm_measurement",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("measured", BIG, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="arm_measurement_pk"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    op.drop_table("arm_measurement")
