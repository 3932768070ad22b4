"""Tables of rollups by day and hour, and of histograms; they only make queries faster.

New calls go into ``rollup_pending`` and ``latency_pending``, which are cheap to add to.
``pending_sums`` moves many of them at once into the other tables; readers sum both.
"""

from typing import Final

from sqlalchemy import Column, Index, Integer, Table

from proxy.store.sql.schema import BIG, BUCKETS, TEXT, metadata, rollups
from slo.objectives.latency_buckets import BOUNDS_MICROS

DAY_KEY: Final = ("team", "day", "feature", "model", "route", "upstream", "key_id")
WEEK_KEY: Final = ("team", "week", *DAY_KEY[2:])
HOUR_SUMS: Final = ("calls", "unpriced", "cost_nanos", "prompt_tokens", "cache_read")
"""Sums that charts have in many buckets."""
HOURS: Final = range(24)
HISTOGRAM: Final = tuple(f"bucket_{n}" for n in range(len(BOUNDS_MICROS) + 1))
"""Columns of a histogram; buckets are those of ``slo.objectives.latency_buckets``."""


DAYS_PER_WEEK: Final = 7


def week_of(day: int) -> int:
    """The number of a day's week; weeks begin on Monday, and the epoch began on a Thursday."""
    return (day + 3) // DAYS_PER_WEEK


def hour_column(name: str, hour: int) -> str:
    """The column of ``rollup_day_hours`` with a sum of an hour of the day."""
    return f"{name}_{hour}"


def _sums() -> list[Column[int]]:
    return [
        Column(column.name, column.type, nullable=column.nullable)
        for column in rollups.columns
        if not column.primary_key
    ]


rollup_pending = Table(
    "rollup_pending",
    metadata,
    *(Column(each.name, each.type, nullable=False) for each in rollups.columns if each.primary_key),
    *_sums(),
    sqlite_strict=True,
)
"""Sums of new calls by quarter, a row for each batch, that no day or hour has yet."""

latency_pending = Table(
    "latency_pending",
    metadata,
    Column("hour", BIG, nullable=False),
    Column("team", TEXT, nullable=False),
    Column("feature", TEXT, nullable=False),
    Column("model", TEXT, nullable=False),
    Column("route", TEXT, nullable=False),
    Column("ttft", BIG),
    Column("duration", BIG),
    Column("itl", BIG),
    sqlite_strict=True,
)
"""The bucket of each latency of a new call that no histogram has yet, null where it has none."""

rollup_days = Table(
    "rollup_days",
    metadata,
    *(
        Column(name, rollups.c[name].type, primary_key=True, autoincrement=False)
        for name in DAY_KEY
    ),
    *_sums(),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The sums of ``rollups`` by day of UTC: a period is its whole days, and quarters at its ends."""

rollup_weeks = Table(
    "rollup_weeks",
    metadata,
    *(
        Column(name, BIG if name == "week" else TEXT, primary_key=True, autoincrement=False)
        for name in WEEK_KEY
    ),
    *_sums(),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The same by week of UTC: of long periods a seventh of the rows is read."""

arm_measurement = Table(
    "arm_measurement",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("measured", BIG, nullable=False),
    Column("text", TEXT, nullable=False),
    sqlite_strict=True,
)
"""One row: the last comparison of control arms, in JSON, and when it was begun."""

rollup_day_hours = Table(
    "rollup_day_hours",
    metadata,
    *(
        Column(name, rollups.c[name].type, primary_key=True, autoincrement=False)
        for name in DAY_KEY
    ),
    *(Column(hour_column(name, hour), BIG) for hour in HOURS for name in HOUR_SUMS),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The few sums that charts have in many buckets: those of each hour of a day in its one row.

A chart of days of another zone needs up to twelve hours of each. One row has them all, where a row
for each hour would be found, and sorted, twelve times as often.
"""

rollup_misses = Table(
    "rollup_misses",
    metadata,
    Column("team", TEXT, primary_key=True),
    Column("day", BIG, primary_key=True, autoincrement=False),
    Column("feature", TEXT, primary_key=True),
    Column("model", TEXT, primary_key=True),
    Column("route", TEXT, primary_key=True),
    Column("upstream", TEXT, primary_key=True),
    Column("reason", TEXT, primary_key=True),
    Column("attempts", BIG, nullable=False),
    Column("tokens", BIG, nullable=False),
    Column("nanos", BIG),
    Column("example", TEXT, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Cache misses by day of UTC and reason; ``example`` is the newest such call's id."""

rollup_unanswered = Table(
    "rollup_unanswered",
    metadata,
    Column("team", TEXT, primary_key=True),
    Column("quarter", BIG, primary_key=True, autoincrement=False),
    *(Column(name, TEXT, primary_key=True) for name in DAY_KEY[2:]),
    *(Column(name, BIG, nullable=False) for name in ("calls", *BUCKETS)),
    Column("list_nanos", BIG, nullable=False),
    Column("extra_nanos", BIG, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The part of ``rollups`` that attempts without an answer had, at a known price.

Nobody who sends directly pays for ``extra_nanos``: another attempt followed these, or outran them.
"""

latency_day_histograms = Table(
    "latency_day_histograms",
    metadata,
    # A question is about one metric, and its days are summed in this order without a sort.
    Column("metric", TEXT, primary_key=True),
    Column("day", BIG, primary_key=True, autoincrement=False),
    Column("team", TEXT, primary_key=True),
    Column("feature", TEXT, primary_key=True),
    Column("model", TEXT, primary_key=True),
    Column("route", TEXT, primary_key=True),
    *(Column(name, BIG) for name in HISTOGRAM),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Histograms by day of UTC; null where a bucket has no call."""

latency_hour_histograms = Table(
    "latency_hour_histograms",
    metadata,
    Column("metric", TEXT, primary_key=True),
    Column("hour", BIG, primary_key=True, autoincrement=False),
    Column("team", TEXT, primary_key=True),
    *(Column(name, BIG) for name in HISTOGRAM),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""The same by team and hour; ``hour`` is its beginning in seconds since the epoch."""

_MARK_SUMS = (
    "balance", "direct", "staked", "earned", "calls",
    "tools", "stable", "semi_stable", "first_call", "later_call",
)  # fmt: skip
mark_accounts = Table(
    "mark_accounts",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "feature", "family")),
    *(Column(name, BIG, nullable=False) for name in (*_MARK_SUMS, "halved", "updated")),
    Index("mark_accounts_updated", "updated"),
    sqlite_strict=True,
)
"""Costs and earnings of the cache marks of each feature: in nano-dollars, but for ``calls``.

The last five sums are balances of the places that marks end, of recent calls. ``halved`` is when a
loss was last made smaller, ``updated`` when a gateway last counted calls.
"""

team_losses = Table(
    "team_losses",
    metadata,
    Column("team", TEXT, primary_key=True),
    Column("day", BIG, primary_key=True, autoincrement=False),
    Column("lent", BIG, nullable=False),
    Column("updated", BIG, nullable=False),
    Index("team_losses_updated", "updated"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
"""Amounts that all gateways may lose of a team in a day of UTC, or lost, in nano-dollars."""
