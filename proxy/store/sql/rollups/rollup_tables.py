"""Tables of rollups by day and hour, and of histograms; they only make queries faster.

New calls go into ``rollup_pending`` and ``latency_pending``, which are cheap to add to.
``pending_sums`` moves many of them at once into the other tables; readers sum both.
"""

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Column

from proxy.store.sql.schema import (
    BIG,
    BUCKETS,
    BY_KEY,
    TEXT,
    columns_of,
    keys_of,
    nullable_of,
    rollups,
    table,
)
from slo.objectives.latency_buckets import BOUNDS_MICROS

_PLACE: Final = ("feature", "model", "route", "upstream", "key_id")
DAY_KEY: Final = ("team", "day", *_PLACE)
WEEK_KEY: Final = ("team", "week", *_PLACE)
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


def _place_keys(time: str) -> Iterator[Column[Any]]:
    """The key of a table of a longer time than ``rollups``."""
    yield from (*keys_of(TEXT, "team"), *keys_of(BIG, time), *keys_of(TEXT, *_PLACE))


def _sums() -> Iterator[Column[Any]]:
    return (
        Column(column.name, column.type, nullable=column.nullable)
        for column in rollups.columns
        if not column.primary_key
    )


rollup_pending = table(
    "rollup_pending",
    *(Column(key.name, key.type, nullable=False) for key in rollups.primary_key),
    *_sums(),
)
"""Sums of new calls by quarter, a row for each batch, that no day or hour has yet."""

latency_pending = table(
    "latency_pending",
    *columns_of(BIG, "hour"),
    *columns_of(TEXT, "team", "feature", "model", "route"),
    *nullable_of(BIG, "ttft", "duration", "itl"),
)
"""The bucket of each latency of a new call that no histogram has yet, null where it has none."""

rollup_days = table("rollup_days", *_place_keys("day"), *_sums(), **BY_KEY)
"""The sums of ``rollups`` by day of UTC: a period is its whole days, and quarters at its ends."""

rollup_weeks = table("rollup_weeks", *_place_keys("week"), *_sums(), **BY_KEY)
"""The same by week of UTC: of long periods a seventh of the rows is read."""

rollup_day_hours = table(
    "rollup_day_hours",
    *_place_keys("day"),
    *nullable_of(BIG, *(hour_column(name, hour) for hour in HOURS for name in HOUR_SUMS)),
    **BY_KEY,
)
"""The few sums that charts have in many buckets: those of each hour of a day in its one row.

A chart of days of another zone needs up to twelve hours of each. One row has them all, where a row
for each hour would be found, and sorted, twelve times as often.
"""

rollup_misses = table(
    "rollup_misses",
    *keys_of(TEXT, "team"),
    *keys_of(BIG, "day"),
    *keys_of(TEXT, *_PLACE[:-1], "reason"),
    *columns_of(BIG, "attempts", "tokens"),
    *nullable_of(BIG, "nanos"),
    *columns_of(TEXT, "example"),
    **BY_KEY,
)
"""Cache misses by day of UTC and reason; ``example`` is the newest such call's id."""

rollup_unanswered = table(
    "rollup_unanswered",
    *_place_keys("quarter"),
    *columns_of(BIG, "calls", *BUCKETS, "list_nanos", "extra_nanos"),
    **BY_KEY,
)
"""The part of ``rollups`` that attempts without an answer had, at a known price.

Nobody who sends directly pays for ``extra_nanos``: another attempt followed these, or outran them.
Attempts whose saving by the fast path is known are in ``rollup_fast_path`` alone.
"""

rollup_estimated = table(
    "rollup_estimated",
    *_place_keys("quarter"),
    *columns_of(BIG, "attempts", "cost_nanos"),
    **BY_KEY,
)
"""The part of ``rollups`` whose usage the gateway counted, as no upstream said it."""

rollup_fallbacks = table(
    "rollup_fallbacks",
    *_place_keys("quarter"),
    *columns_of(BIG, "calls", *BUCKETS, "list_nanos"),
    **BY_KEY,
)
"""The part of ``rollups`` that fallbacks answered, at a known price.

What was asked for failed, or missed an objective: a direct caller would have had that.
"""

rollup_fast_path = table(
    "rollup_fast_path",
    *_place_keys("quarter"),
    *keys_of(TEXT, "part"),
    *columns_of(BIG, "calls", "saved_calls", *BUCKETS, "list_nanos", "cost_nanos", "saved_nanos"),
    **BY_KEY,
)
"""The part of ``rollups`` that the fast path had a part in.

``part`` is what served the attempt, or ``checks`` for calls of the gateway's own that compare
answers. All sums but ``calls`` are of attempts of which the saving is known.
"""

latency_day_histograms = table(
    "latency_day_histograms",
    # A question is about one metric, and its days are summed in this order without a sort.
    *keys_of(TEXT, "metric"),
    *keys_of(BIG, "day"),
    *keys_of(TEXT, "team", "feature", "model", "route"),
    *nullable_of(BIG, *HISTOGRAM),
    **BY_KEY,
)
"""Histograms by day of UTC; null where a bucket has no call."""

latency_hour_histograms = table(
    "latency_hour_histograms",
    *keys_of(TEXT, "metric"),
    *keys_of(BIG, "hour"),
    *keys_of(TEXT, "team"),
    *nullable_of(BIG, *HISTOGRAM),
    **BY_KEY,
)
"""The same by team and hour; ``hour`` is its beginning in seconds since the epoch."""
