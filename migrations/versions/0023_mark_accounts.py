"""A table of what each feature's cache marks may lose, and earned."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_KEY = ("team", "feature", "family")
_SUMS = (
    "balance", "direct", "staked", "earned", "calls",
    "tools", "stable", "semi_stable", "first_call", "later_call",
)  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "mark_accounts",
        *(sa.Column(name, TEXT, nullable=False) for name in _KEY),
        *(sa.Column(name, BIG, nullable=False) for name in (*_SUMS, "halved", "updated")),
        sa.PrimaryKeyConstraint(*_KEY, name="mark_accounts_pk"),
        sqlite_strict=True,
    )
    op.create_index("mark_accounts_updated", "mark_accounts", ["updated"])


def downgrade() -> None:
    op.drop_table("mark_accounts")
