"""A table of what all features of a team may lose together in a day."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "team_losses",
        sa.Column("team", TEXT, nullable=False),
        *(sa.Column(name, BIG, nullable=False) for name in ("day", "lent", "updated")),
        sa.PrimaryKeyConstraint("team", "day", name="team_losses_pk"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("team_losses_updated", "team_losses", ["updated"])


def downgrade() -> None:
    op.drop_table("team_losses")
