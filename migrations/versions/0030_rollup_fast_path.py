"""Adds sums of what the fast path did, filled from the calls that are there."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

_BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_KEY = ("team", "quarter", "feature", "model", "route", "upstream", "key_id", "part")
_SUMMED = (
    "input", "cache_read", "write_5m", "write_30m", "write_1h", "write_12h", "output", "reasoning",
    "list_nanos", "cost_nanos",
)  # fmt: skip
_COUNTS = ("calls", "saved_calls", *_SUMMED, "saved_nanos")
_PLACE = {"quarter": "started / 900000000 * 900", "part": "coalesce(served_by, 'checks')"}


def upgrade() -> None:
    op.create_table(
        "rollup_fast_path",
        *(sa.Column(name, _BIG if name == "quarter" else _TEXT, nullable=False) for name in _KEY),
        *(sa.Column(name, _BIG, nullable=False) for name in _COUNTS),
        sa.PrimaryKeyConstraint(*_KEY, name="rollup_fast_path_pk"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    place = ", ".join(_PLACE.get(name, name) for name in _KEY)
    sums = ", ".join(
        f"coalesce(sum(CASE WHEN fast_path_nanos IS NOT NULL THEN {name} END), 0)"
        for name in _SUMMED
    )
    op.execute(
        f"INSERT INTO rollup_fast_path ({', '.join((*_KEY, *_COUNTS))})"
        f" SELECT {place}, sum(CASE WHEN served_by = 'draft' THEN 1 ELSE final END),"
        " sum(CASE WHEN fast_path_nanos IS NOT NULL THEN final ELSE 0 END),"
        f" {sums}, coalesce(sum(fast_path_nanos), 0)"
        " FROM calls WHERE served_by IS NOT NULL OR fast_path_nanos IS NOT NULL"
        f" GROUP BY {place}"
    )
