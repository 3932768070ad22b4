"""Histograms of latencies, read by hour or day of UTC."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Engine, Select, func, literal_column, select

from dashboards.reports import Part, SpendFilter
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

_DAY_S: Final = 86_400
#: The day of a pending call; as text, because a parameter would be another one where it is grouped.
_PENDING_DAY: Final = literal_column("latency_pending.hour / 86400", BigInteger)

Histogram = dict[int, int]
"""Number of calls by bucket of latency, as ``slo.latency_buckets`` numbers them."""


class LatencyReader:
    """Latencies in one database; every method may block.

    Calls that no histogram has yet are counted from ``latency_pending``, in the same snapshot.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def by_hour(
        self, metric: str, start: int, end: int, only: SpendFilter
    ) -> Mapping[int, Histogram]:
        """Histograms of each hour that has calls, by its beginning in seconds since the epoch.

        Args:
            metric: The latency.
            start: Beginning of the first hour.
            end: End of the last.
            only: Calls that count; of filters only teams can be told apart.
        """
        rows = latency_hour_histograms.c
        query = (
            select(rows.hour, *_counts())
            .where(
                rows.hour >= start,
                rows.hour < end,
                rows.metric == metric,
                *filter_conditions(rows, only),
            )
            .group_by(rows.hour)
        )
        pending = _pending_counts(metric, latency_pending.c.hour, only=only).where(
            latency_pending.c.hour >= start, latency_pending.c.hour < end
        )
        return self._histograms(query, pending)

    def by_day(
        self, metric: str, start: int, end: int, only: SpendFilter
    ) -> Mapping[int, Histogram]:
        """The same of days of UTC, by their beginning."""
        rows, period = latency_day_histograms.c, (start, end)
        query = _days(metric, period, only, rows.day).group_by(rows.day)
        found = self._histograms(query, _pending_days(metric, period, only, _PENDING_DAY))
        return {day * _DAY_S: histogram for day, histogram in found.items()}

    def by_value(
        self, metric: str, part: Part, period: tuple[int, int], only: SpendFilter, limit: int
    ) -> Mapping[str, Histogram]:
        """Histograms of a period of days of UTC by value, of those with most calls."""
        values = [_values(table.c, part) for table in (latency_day_histograms, latency_pending)]
        query = _days(metric, period, only, *values[0]).group_by(*values[0])
        found: dict[str, Histogram] = defaultdict(partial(defaultdict, int))
        each = self._histograms(query, _pending_days(metric, period, only, *values[1]))
        for key, histogram in each.items():
            named = key if isinstance(key, tuple) else (key,)
            value = answering_model(named[1], named[0]) if part == "model" else named[0]
            for bucket, count in histogram.items():
                found[value][bucket] += count
        ranked = sorted(found, key=lambda each: (-sum(found[each].values()), each))
        return {each: found[each] for each in ranked[:limit]}

    def phases(self, start: int, end: int, only: SpendFilter) -> Mapping[str, Mapping[str, int]]:
        """Sums of engines' phases by upstream, in microseconds, and the calls that have any."""
        query = SumQuery(
            place=lambda rows: [rows.upstream],
            addends=_phases,
            only=only,
        )
        with read_transaction(self._engine, is_snapshot=True) as connection:
            found = bucket_sums(connection, (start, end), query)
        return {key[1]: sums for key, sums in found.items() if sums["phases_count"]}

    def _histograms(self, query: Select[Any], pending: Select[Any]) -> dict[Any, Histogram]:
        """Histograms by key, of two queries: key and counts, and key, bucket and count."""
        found: dict[Any, Histogram] = defaultdict(partial(defaultdict, int))
        with read_transaction(self._engine, is_snapshot=True) as connection:
            for row in connection.execute(query):
                histogram = found[_key(row[: -len(HISTOGRAM)])]
                for bucket, count in enumerate(row[-len(HISTOGRAM) :]):
                    if count:
                        histogram[bucket] += count
            for *key, bucket, count in connection.execute(pending):
                found[_key(key)][bucket] += count
        return found


def _key(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a value of the database
    return values[0] if len(values) == 1 else tuple(values)


def _counts() -> list[ColumnElement[int]]:
    """Sums of a histogram's columns; as text, for eighty of them take long to compile."""
    return [literal_column(f"CAST(sum({name}) AS BIGINT)").label(name) for name in HISTOGRAM]


def _days(
    metric: str, period: tuple[int, int], only: SpendFilter, *values: ColumnElement[Any]
) -> Select[Any]:
    """Values and counts of the days of UTC that a period has a part of, for a metric."""
    rows = latency_day_histograms.c
    return select(*values, *_counts()).where(
        rows.day.between(period[0] // _DAY_S, (period[1] - 1) // _DAY_S),
        rows.metric == metric,
        *filter_conditions(rows, only),
    )


def _pending_days(
    metric: str, period: tuple[int, int], only: SpendFilter, *values: ColumnElement[Any]
) -> Select[Any]:
    """The same of calls that no histogram has: values, bucket, count."""
    first, last = period[0] // _DAY_S, (period[1] - 1) // _DAY_S
    hour = latency_pending.c.hour
    return _pending_counts(metric, *values, only=only).where(
        hour >= first * _DAY_S, hour < (last + 1) * _DAY_S
    )


def _pending_counts(metric: str, *values: ColumnElement[Any], only: SpendFilter) -> Select[Any]:
    rows = latency_pending.c
    bucket = rows[metric]
    return (
        select(*values, bucket, func.count())
        .where(bucket.is_not(None), *filter_conditions(rows, only))
        .group_by(*values, bucket)
    )


def _values(rows: Columns, part: Part) -> list[ColumnElement[Any]]:
    return [rows.model, rows.route] if part == "model" else [part_column(rows, part)]


def _phases(rows: Columns) -> Mapping[str, Any]:
    names: Sequence[str] = [*(f"{phase}_sum" for phase in schema.PHASES), "phases_count"]
    return {name: rows[name] for name in names}
