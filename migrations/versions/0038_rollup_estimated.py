"""Adds sums of attempts whose usage is estimated, filled from the calls that are there."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_KEY = ("team", "quarter", "feature", "model", "route", "upstream", "key_id")
_SUMS = ("attempts", "cost_nanos")


def upgrade() -> None:
    op.create_table(
        "rollup_estimated",
        *(sa.Column(name, _BIG if name == "quarter" else _TEXT, nullable=False) for name in _KEY),
        *(sa.Column(name, _BIG, nullable=False) for name in _SUMS),
        sa.PrimaryKeyConstraint(*_KEY, name="rollup_estimated_pk"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    place = ", ".join("started / 900000000 * 900" if name == "quarter" else name for name in _KEY)
    op.execute(
        f"INSERT INTO rollup_estimated ({', '.join((*_KEY, *_SUMS))})"
        f" SELECT {place}, count(*), sum(cost_nanos) FROM calls"
        " WHERE estimated = 1 AND cost_nanos IS NOT NULL"
        f" GROUP BY {place}"
    )
