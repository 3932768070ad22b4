"""Latencies over time, read and put into buckets."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.views.costs import value_label
from dashboards.views.latency import (
    EnginePhases,
    LatencyDimension,
    LatencyLine,
    LatencyMetric,
    LatencyRow,
    LatencyUnit,
    LatencyView,
)
from proxy.store.sql.views.latency_histograms import Histogram
from proxy.store.sql.views.readers import Readers
from slo.latency_buckets import BOUNDS_MICROS, MAX_ERROR, percentiles

_LENGTH_S: Final[Mapping[LatencyUnit, int]] = {"hour": 3_600, "day": 86_400, "week": 604_800}
#: Monday is the fifth day of the epoch, which began on a Thursday.
_FIRST_MONDAY_S: Final = 4 * 86_400
#: The zone of days and weeks, whose sums are made once.
_DAYS_ZONE: Final = "UTC"
_PERCENTS: Final = (50, 95, 99)
_MICROS: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyQuestion:
    """A question for latencies.

    Attributes:
        metric: The latency.
        by: The dimension of the rows.
        top: Rows, those with most calls.
        period: Days that are asked for.
        unit: Length of a bucket.
        only: Calls that count.
    """

    metric: LatencyMetric
    by: LatencyDimension
    top: int
    period: ReportPeriod
    unit: LatencyUnit
    only: SpendFilter


def latency_view(readers: Readers, asked: LatencyQuestion) -> LatencyView:
    """Latencies of a period by time and by value; blocks."""
    period, unit, only = asked.period, asked.unit, asked.only
    bounds, reader = period.bounds, readers.latency
    by_time = reader.by_hour if unit == "hour" else reader.by_day
    found = by_time(asked.metric, *bounds, only)
    start, end, length = _whole_buckets(bounds, unit)
    starts = range(start, end, length)
    buckets: list[Counter[int]] = [Counter() for _ in starts]
    for moment, histogram in found.items():
        if start <= moment < end:
            buckets[(moment - start) // length].update(histogram)
    total: Counter[int] = Counter()
    for each in buckets:
        total.update(each)
    low, high = min(total, default=0), max(total, default=0)
    values = reader.by_value(asked.metric, asked.by, bounds, only, asked.top)
    names = readers.team_names() if asked.by == "team" else {}
    return LatencyView(
        first=period.first,
        last=period.end - timedelta(days=1),
        tz=period.zone if unit == "hour" else _DAYS_ZONE,
        metric=asked.metric,
        by=asked.by,
        unit=unit,
        starts=list(starts),
        end=end,
        bounds=[each / _MICROS for each in BOUNDS_MICROS[low:high]],
        counts=[[each[n] for n in range(low, high + 1)] for each in buckets],
        lines=[_percentiles(each) for each in buckets],
        total=_percentiles(total),
        rows=_rows(values, names),
        phases=_phases(reader.phases(*bounds, only)),
        max_error=MAX_ERROR,
    )


def _whole_buckets(bounds: tuple[int, int], unit: LatencyUnit) -> tuple[int, int, int]:
    """Beginning, end and length of the buckets of UTC that a period has a part of."""
    length = _LENGTH_S[unit]
    offset = _FIRST_MONDAY_S if unit == "week" else 0
    start = (bounds[0] - offset) // length * length + offset
    end = -(-(bounds[1] - offset) // length) * length + offset
    return start, end, length


def _percentiles(histogram: Histogram) -> LatencyLine:
    p50, p95, p99 = percentiles(histogram, _PERCENTS)
    return LatencyLine(calls=sum(histogram.values()), p50=p50, p95=p95, p99=p99)


def _rows(values: Mapping[str, Histogram], names: Mapping[str, str]) -> list[LatencyRow]:
    rows = [
        LatencyRow(
            value=value_label(value, {}),
            name=value_label(value, names),
            percentiles=_percentiles(histogram),
        )
        for value, histogram in values.items()
    ]
    return sorted(rows, key=lambda row: (-row.percentiles.calls, row.value))


def _phases(found: Mapping[str, Mapping[str, int]]) -> list[EnginePhases]:
    return [
        EnginePhases(
            upstream=upstream,
            calls=sums["phases_count"],
            queue=sums["queue_sum"] / sums["phases_count"] / _MICROS,
            prefill=sums["prefill_sum"] / sums["phases_count"] / _MICROS,
            decode=sums["decode_sum"] / sums["phases_count"] / _MICROS,
            transfer=sums["transfer_sum"] / sums["phases_count"] / _MICROS,
        )
        for upstream, sums in sorted(found.items())
    ]
