"""Latencies over time, read from histograms by hour or day of UTC and made into the view of them.

Calls that no histogram has yet are counted from ``latency_pending``, in the same snapshot.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, func, literal_column, select

from dashboards.report_periods import period_before
from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.views.costs import value_label
from dashboards.views.latency import (
    EnginePhases,
    HealthView,
    HealthWindow,
    LatencyDimension,
    LatencyLine,
    LatencyMetric,
    LatencyRow,
    LatencyUnit,
    LatencyView,
)
from proxy.records.receipt import answering_model
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.bucket_sums import SumQuery, bucket_sums
from proxy.store.sql.rollups.rollup_tables import (
    HISTOGRAM,
    latency_day_histograms,
    latency_hour_histograms,
    latency_pending,
)
from proxy.store.sql.rollups.spend_filters import Columns, filter_conditions, part_column
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.series import named_filters
from slo.objectives.latency_buckets import BOUNDS_MICROS, MAX_ERROR, percentiles

_LENGTH_S: Final[Mapping[LatencyUnit, int]] = {
    "minute": 60,
    "hour": 3_600,
    "day": 86_400,
    "week": 604_800,
}
_DAY_S: Final = 86_400
#: Monday is the fifth day of the epoch, which began on a Thursday.
_FIRST_MONDAY_S: Final = 4 * _DAY_S
#: The zone of days and weeks, whose sums are made once.
_DAYS_ZONE: Final = "UTC"
_PERCENTS: Final = (50, 95, 99)
_MICROS: Final = 1e6
#: The day of a pending call; as text, because a parameter would be another one where it is grouped.
_PENDING_DAY: Final = literal_column("latency_pending.hour / 86400", BigInteger)

Histogram = Counter[int]
"""Number of calls by bucket of latency, as ``slo.objectives.latency_buckets`` numbers them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyQuestion:
    """A question for latencies.

    Attributes:
        top: Rows, those with most calls.
        unit: Length of a bucket; hours know no filter but teams.
    """

    metric: LatencyMetric
    by: LatencyDimension
    top: int
    period: ReportPeriod
    unit: LatencyUnit
    only: SpendFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthQuestion:
    """A question for health; ``now`` is in seconds since the epoch."""

    now: float
    only: SpendFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyCounts:
    """Histograms of a period and of the one before it.

    Attributes:
        starts: Beginnings of the buckets, ascending.
        before: Histograms of the earlier buckets, the first for the first; None where unknown.
        values: Histograms by value.
        values_before: The same of the period before; empty where unknown.
        filter_names: Names of teams and keys that it is filtered by, by their ids.
    """

    starts: range
    buckets: Sequence[Histogram]
    before: Sequence[Histogram] | None
    values: Mapping[str, Histogram]
    values_before: Mapping[str, Histogram]
    filter_names: Mapping[str, str]


def latency_view(readers: Readers, question: LatencyQuestion) -> LatencyView:
    """Latencies of a period by time and by value, and of the one before by time; blocks."""
    period, unit = question.period, question.unit
    names = readers.team_names() if question.by == "team" else {}
    earlier = replace(question, period=period_before(period))
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        moments = histograms_by_time(connection, question)
        moments_before = histograms_by_time(connection, earlier)
        values = histograms_by_value(connection, question)
        values_before = histograms_by_value(connection, earlier)
        filter_names = named_filters(connection, question.only)
        phases = engine_phases(connection, period.bounds, question.only)
    starts = range(*_whole_buckets(period.bounds, unit))
    before_starts = range(*_whole_buckets(earlier.period.bounds, unit))
    counts = LatencyCounts(
        starts=starts,
        buckets=bucket_histograms(moments, starts),
        before=bucket_histograms(moments_before, before_starts),
        values=values,
        values_before=values_before,
        filter_names=filter_names,
    )
    return shown_latencies(question, counts, names, phases=phases)


def bucket_histograms(moments: Mapping[int, Histogram], starts: range) -> list[Histogram]:
    """The histogram of each bucket, from those by moments; moments outside count nowhere."""
    buckets = [Histogram() for _ in starts]
    for moment, histogram in moments.items():
        if starts.start <= moment < starts.stop:
            buckets[(moment - starts.start) // starts.step].update(histogram)
    return buckets


def shown_latencies(
    question: LatencyQuestion, counts: LatencyCounts, names: Mapping[str, str], **more: object
) -> LatencyView:
    """The view of histograms.

    Args:
        names: Names of teams by their ids.
        more: Fields of the view that histograms do not give.
    """
    period, unit, starts = question.period, question.unit, counts.starts
    total = sum(counts.buckets, Histogram())
    low, high = min(total, default=0), max(total, default=0)
    ranked = sorted(counts.values.items(), key=lambda each: (-each[1].total(), each[0]))
    rows = [
        LatencyRow(
            value=value_label(value, {}),
            name=value_label(value, names),
            percentiles=latency_line(histogram),
            before_p95=latency_line(counts.values_before.get(value, Histogram())).p95,
        )
        for value, histogram in ranked[: question.top]
    ]
    before, earlier = counts.before, period_before(period)
    fields: dict[str, Any] = {
        "first": period.first,
        "last": period.end - timedelta(days=1),
        "before_first": earlier.first,
        "before_last": earlier.end - timedelta(days=1),
        "tz": period.zone if unit in {"hour", "minute"} else _DAYS_ZONE,
        "metric": question.metric,
        "by": question.by,
        "unit": unit,
        "starts": list(starts),
        "end": starts.stop,
        "bounds": [bound / _MICROS for bound in BOUNDS_MICROS[low:high]],
        "counts": [[histogram[n] for n in range(low, high + 1)] for histogram in counts.buckets],
        "lines": [latency_line(histogram) for histogram in counts.buckets],
        "before": None if before is None else latency_line(sum(before, Histogram())),
        "before_p95": [latency_line(histogram).p95 for histogram in before or ()],
        "total": latency_line(total),
        "rows": rows,
        "phases": (),
        "filter_names": counts.filter_names,
        "max_error": MAX_ERROR,
    }
    return LatencyView(**{**fields, **more})


def health_view(readers: Readers, question: HealthQuestion) -> HealthView:
    """Health since the beginning of the last whole hour, and of the day before it; blocks."""
    length = _LENGTH_S["hour"]
    hour = int(question.now) // length * length
    edges = (hour - _DAY_S, hour - length, hour + length)
    query = SumQuery(
        place=lambda _: (),
        addends=lambda rows: {"calls": rows.calls, "errors": rows.errors},
        only=question.only,
    )
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        sums = bucket_sums(connection, edges, query)
        is_of_teams = not set(question.only.values) - {"team"}
        durations = _durations(connection, edges, question.only) if is_of_teams else {}

    def window(since: int, *buckets: int) -> HealthWindow:
        counts: Counter[int] = sum(
            (counted for start, counted in durations.items() if start >= since), Counter()
        )
        counted = [sums.get((bucket,), {}) for bucket in buckets]
        return HealthWindow(
            since=since,
            calls=sum(bucket.get("calls", 0) for bucket in counted),
            errors=sum(bucket.get("errors", 0) for bucket in counted),
            p95=latency_line(counts).p95,
        )

    return HealthView(recent=window(edges[1], 1), day=window(edges[0], 0, 1))


def _durations(
    connection: Connection, edges: tuple[int, int, int], only: SpendFilter
) -> dict[int, Counter[int]]:
    """Histograms of durations by hour, of the days that the edges touch."""
    first, last = (datetime.fromtimestamp(edge, UTC).date() for edge in (edges[0], edges[2]))
    question = LatencyQuestion(
        metric="duration",
        by="team",
        top=1,
        period=ReportPeriod(first=first, end=last + timedelta(days=1), zone="UTC"),
        unit="hour",
        only=only,
    )
    by_hour = histograms_by_time(connection, question)
    return {start: counts for start, counts in by_hour.items() if edges[0] <= start < edges[2]}


def histograms_by_time(
    connection: Connection, question: LatencyQuestion
) -> Mapping[int, Histogram]:
    """Histograms of hours or days of UTC that have calls, by their beginning in seconds."""
    if question.unit != "hour":
        days = latency_day_histograms.c.day
        by_day = _histograms(connection, question, [days], [_PENDING_DAY])
        return {day * _DAY_S: histogram for (day,), histogram in by_day.items()}
    start, end = question.period.bounds
    hours, pending = latency_hour_histograms.c.hour, latency_pending.c.hour
    whole = _stored_counts(latency_hour_histograms.c, question, [hours]).where(
        hours >= start, hours < end
    )
    rest = _pending_counts(question, [pending]).where(pending >= start, pending < end)
    return {hour: counts for (hour,), counts in _add_rows(connection, whole, rest).items()}


def histograms_by_value(
    connection: Connection, question: LatencyQuestion
) -> Mapping[str, Histogram]:
    """Histograms of a period of days of UTC by value."""
    stored, pending = (
        _value_columns(table.c, question) for table in (latency_day_histograms, latency_pending)
    )
    values = defaultdict[str, Histogram](Histogram)
    for named, histogram in _histograms(connection, question, stored, pending).items():
        value = answering_model(named[1], named[0]) if question.by == "model" else named[0]
        values[value].update(histogram)
    return values


def engine_phases(
    connection: Connection, bounds: tuple[int, int], only: SpendFilter
) -> list[EnginePhases]:
    """Means of the phases of each upstream that reports some."""
    names = [*(f"{phase}_sum" for phase in schema.PHASES), "phases_count"]
    query = SumQuery(
        place=lambda rows: [rows.upstream],
        addends=lambda rows: {name: rows[name] for name in names},
        only=only,
    )
    return [
        EnginePhases(
            upstream=upstream,
            calls=sums["phases_count"],
            **{
                phase: sums[f"{phase}_sum"] / sums["phases_count"] / _MICROS
                for phase in schema.PHASES
            },
        )
        for (_, upstream), sums in sorted(bucket_sums(connection, bounds, query).items())
        if sums["phases_count"]
    ]


def _whole_buckets(bounds: tuple[int, int], unit: LatencyUnit) -> tuple[int, int, int]:
    """Beginning, end and length of the buckets of UTC that a period has a part of."""
    length = _LENGTH_S[unit]
    offset = _FIRST_MONDAY_S if unit == "week" else 0
    start = (bounds[0] - offset) // length * length + offset
    end = -(-(bounds[1] - offset) // length) * length + offset
    return start, end, length


def latency_line(histogram: Histogram) -> LatencyLine:
    """Percentiles of a histogram."""
    p50, p95, p99 = percentiles(histogram, _PERCENTS)
    return LatencyLine(calls=histogram.total(), p50=p50, p95=p95, p99=p99)


def _value_columns(rows: Columns, question: LatencyQuestion) -> list[ColumnElement[Any]]:
    if question.by == "model":
        return [rows.model, rows.route]
    return [part_column(rows, question.by)]


def _histograms(
    connection: Connection,
    question: LatencyQuestion,
    stored: Sequence[ColumnElement[Any]],
    pending: Sequence[ColumnElement[Any]],
) -> dict[tuple[Any, ...], Histogram]:
    """Histograms of the days of UTC that a period has a part of, by these columns of each table."""
    start, end = question.period.bounds
    first, last = start // _DAY_S, (end - 1) // _DAY_S
    days, hour = latency_day_histograms.c, latency_pending.c.hour
    return _add_rows(
        connection,
        _stored_counts(days, question, stored).where(days.day.between(first, last)),
        _pending_counts(question, pending).where(
            hour >= first * _DAY_S, hour < (last + 1) * _DAY_S
        ),
    )


def _add_rows(
    connection: Connection, stored: Select[Any], pending: Select[Any]
) -> dict[tuple[Any, ...], Histogram]:
    """Histograms by key, of two queries: key and counts, and key, bucket and count."""
    histograms = defaultdict[tuple[Any, ...], Histogram](Histogram)
    for row in connection.execute(stored):
        histogram = histograms[tuple(row[: -len(HISTOGRAM)])]
        for bucket, count in enumerate(row[-len(HISTOGRAM) :]):
            if count:
                histogram[bucket] += count
    for *key, bucket, count in connection.execute(pending):
        histograms[tuple(key)][bucket] += count
    return histograms


def _stored_counts(
    rows: Columns, question: LatencyQuestion, columns: Sequence[ColumnElement[Any]]
) -> Select[Any]:
    """Sums of a histogram's columns; as text, for eighty of them take long to compile."""
    counts: list[ColumnElement[int]] = [
        literal_column(f"CAST(sum({name}) AS BIGINT)").label(name) for name in HISTOGRAM
    ]
    conditions = rows.metric == question.metric, *filter_conditions(rows, question.only)
    return select(*columns, *counts).where(*conditions).group_by(*columns)


def _pending_counts(
    question: LatencyQuestion, columns: Sequence[ColumnElement[Any]]
) -> Select[Any]:
    """Calls that no histogram has: columns, bucket, count."""
    rows = latency_pending.c
    bucket = rows[question.metric]
    conditions = bucket.is_not(None), *filter_conditions(rows, question.only)
    return select(*columns, bucket, func.count()).where(*conditions).group_by(*columns, bucket)
