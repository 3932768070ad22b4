"""Latencies of a window that ends now, read from its calls and those of the window before."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import BigInteger, Connection, func, literal_column, or_, select

from dashboards.views.latency import LatencyUnit, LatencyView, LatencyWindow
from proxy.records.receipt import IDLE_TEAM, Outcome
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.rollup_statements import LATENCIES, bucket_case
from proxy.store.sql.rollups.spend_filters import part_column
from proxy.store.sql.timestamps import micros
from proxy.store.sql.views.calls import (
    CallSearch,
    newest_part,
    period_conditions,
    search_conditions,
)
from proxy.store.sql.views.latency import (
    Histogram,
    LatencyCounts,
    LatencyQuestion,
    bucket_histograms,
    shown_latencies,
)
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.series import named_filters

#: Attempts of a window and of the one before it that are read, the newest.
_MAX_ATTEMPTS: Final = 100_000
#: Seconds of each window, and of its buckets.
_LENGTHS_S: Final[Mapping[LatencyWindow, tuple[int, int]]] = {
    "15m": (900, 60),
    "1h": (3_600, 60),
    "24h": (86_400, 3_600),
}


class CountedLatency(NamedTuple):
    """Calls of one latency; ``place`` numbers their bucket of time since the epoch."""

    place: int
    value: str
    bucket: int
    calls: int


def window_bounds(window: LatencyWindow, now: float) -> tuple[int, int]:
    """Beginning and end of a window; its last bucket goes on."""
    length, bucket_s = _LENGTHS_S[window]
    end = (int(now) // bucket_s + 1) * bucket_s
    return end - length, end


def window_unit(window: LatencyWindow) -> LatencyUnit:
    """The unit of a window's buckets."""
    return "hour" if window == "24h" else "minute"


def window_latencies(
    readers: Readers,
    question: LatencyQuestion,
    window: LatencyWindow,
    now: float,
    limit: int = _MAX_ATTEMPTS,
) -> LatencyView:
    """Latencies of a window that ends now by time and by value, and before it by time; blocks.

    The window before lacks the same part at its end as the one that goes on.
    """
    length, bucket_s = _LENGTHS_S[window]
    first, end = window_bounds(window, now)
    whole = CallSearch(since=first - length, until=end, only=question.only)
    names = readers.team_names() if question.by == "team" else {}
    with read_transaction(readers.engine) as connection:
        search = newest_part(connection, whole, limit)
        rows = _counted_latencies(connection, search, question, bucket_s, (now - length, first))
        filter_names = named_filters(connection, question.only)
    since = max(first, -int(-search.since // bucket_s) * bucket_s)
    starts = range(min(since, end - bucket_s), end, bucket_s)
    before_starts = range(first - length, first, bucket_s)
    moments = defaultdict[int, Histogram](Histogram)
    for row in rows:
        moments[row.place * bucket_s][row.bucket] += row.calls
    counts = LatencyCounts(
        starts=starts,
        buckets=bucket_histograms(moments, starts),
        before=bucket_histograms(moments, before_starts) if search is whole else None,
        values=_histograms_by_value(rows, starts),
        values_before=_histograms_by_value(rows, before_starts) if search is whole else {},
        filter_names=filter_names,
    )
    zone = ZoneInfo(question.period.zone)
    moments_of_days = {
        "first": starts.start,
        "last": end - 1,
        "before_first": first - length,
        "before_last": first - 1,
    }
    days = {
        name: datetime.fromtimestamp(moment, zone).date()
        for name, moment in moments_of_days.items()
    }
    return shown_latencies(question, counts, names, window=window, is_cut=since > first, **days)


def _counted_latencies(
    connection: Connection,
    search: CallSearch,
    question: LatencyQuestion,
    bucket_s: int,
    gap: tuple[float, float],
) -> Sequence[CountedLatency]:
    """Latencies of the calls of a search, by bucket of time, value and bucket of latency.

    Args:
        gap: Moments between which calls do not count.
    """
    calls = schema.calls.c
    latencies = (
        select(
            literal_column(f"started / {micros(bucket_s)}", BigInteger).label("place"),
            func.coalesce(part_column(calls, question.by), "").label("value"),
            literal_column(LATENCIES[question.metric], BigInteger).label("latency"),
        )
        .where(
            *period_conditions(search),
            or_(calls.started < micros(gap[0]), calls.started >= micros(gap[1])),
            calls.final == 1,
            calls.outcome != Outcome.REFUSED.value,
            calls.team != IDLE_TEAM,
            *search_conditions(search),
        )
        .subquery()
    )
    bucket = literal_column(bucket_case("latency"), BigInteger).label("bucket")
    keys: list[Any] = [latencies.c.place, latencies.c.value, bucket]
    query = select(*keys, func.count()).where(latencies.c.latency.is_not(None)).group_by(*keys)
    return [CountedLatency._make(row) for row in connection.execute(query)]


def _histograms_by_value(rows: Sequence[CountedLatency], starts: range) -> dict[str, Histogram]:
    """Histograms by value over the buckets of time that begin then."""
    values = defaultdict[str, Histogram](Histogram)
    for row in rows:
        if row.place * starts.step in starts:
            values[row.value][row.bucket] += row.calls
    return values
