"""Adds sums of what fallbacks answered, filled from the calls that are there."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_KEY = ("team", "quarter", "feature", "model", "route", "upstream", "key_id")
_BUCKETS = (
    "input", "cache_read", "write_5m", "write_30m", "write_1h", "write_12h", "output", "reasoning",
)  # fmt: skip
_SUMS = ("calls", *_BUCKETS, "list_nanos")


def upgrade() -> None:
    op.create_table(
        "rollup_fallbacks",
        *(sa.Column(name, _BIG if name == "quarter" else _TEXT, nullable=False) for name in _KEY),
        *(sa.Column(name, _BIG, nullable=False) for name in _SUMS),
        sa.PrimaryKeyConstraint(*_KEY, name="rollup_fallbacks_pk"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    place = ", ".join("started / 900000000 * 900" if name == "quarter" else name for name in _KEY)
    tokens = ", ".join(f"coalesce(sum({name}), 0)" for name in _BUCKETS)
    op.execute(
        f"INSERT INTO rollup_fallbacks ({', '.join((*_KEY, *_SUMS))})"
        f" SELECT {place}, sum(final), {tokens}, sum(list_nanos) FROM calls"
        " WHERE list_nanos IS NOT NULL AND reroute_reason IS NOT NULL"
        " AND substr(reroute_reason, 1, 12) <> 'the ceiling '"
        " AND (outcome = 'answered' OR (outcome = 'hung_up' AND ttft IS NOT NULL))"
        " AND fast_path_nanos IS NULL AND coalesce(served_by, '') <> 'small'"
        f" GROUP BY {place}"
    )
