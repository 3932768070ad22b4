"""Costs over time, read and added up."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

from dashboards.cost_reports import CostSums
from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.time_buckets import TimeBuckets, period_before, time_buckets
from dashboards.views.costs import (
    FORECAST_DAYS,
    NO_VALUE,
    OTHERS,
    CostDimension,
    CostSeries,
    CostsView,
    MonthForecast,
    cost_amounts,
    month_forecast,
    share,
    value_label,
)
from proxy.store.sql.rollups.value_sums import OTHER_VALUES
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.spend_series import SpendOverTime, SpendSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsQuestion:
    """A question for costs.

    Attributes:
        by: The dimension of the stack.
        top: Values kept apart, the dearest.
        period: Days that are asked for.
        buckets: Their buckets.
        only: Calls that count.
        providers: The provider of each upstream.
        today: The day of now in the period's time zone.
    """

    by: CostDimension
    top: int
    period: ReportPeriod
    buckets: TimeBuckets
    only: SpendFilter
    providers: Mapping[str, str]
    today: date


@dataclass(slots=True)
class _Layer:
    """Sums of one value, added up."""

    sums: CostSums = field(default_factory=CostSums)
    idle: int = 0
    before: CostSums = field(default_factory=CostSums)
    idle_before: int = 0
    buckets: dict[int, CostSums] = field(default_factory=dict)


def costs_view(readers: Readers, asked: CostsQuestion) -> CostsView:
    """Costs of a period beside the one before; blocks."""
    period, buckets = asked.period, asked.buckets
    earlier = period_before(period)
    edges = (earlier.bounds[0], *buckets.edges)
    spend = readers.spend.spend_over_time(edges, _split(asked), asked.only)
    layers = _layers(spend)
    whole = _total(layers.values())
    unattributed = sum(row.unattributed_nanos for row in spend.periods if row.bucket)
    return CostsView(
        first=period.first,
        last=period.end - timedelta(days=1),
        tz=period.zone,
        by=asked.by,
        unit=buckets.unit,
        starts=buckets.starts,
        end=buckets.edges[-1],
        series=_series(layers, len(buckets.starts), _names(readers, asked.by, layers)),
        total=cost_amounts(whole.sums, whole.idle),
        before=cost_amounts(whole.before, whole.idle_before),
        before_first=earlier.first,
        unattributed_nanos=unattributed,
        unattributed_share=share(unattributed, whole.sums.priced_nanos),
        unpriced_share=share(whole.sums.unpriced, whole.sums.attempts),
        month=_month(readers, asked),
    )


def _month(readers: Readers, asked: CostsQuestion) -> MonthForecast:
    today, zone = asked.today, asked.period.zone
    tomorrow = today + timedelta(days=1)
    month = ReportPeriod(first=today.replace(day=1), end=tomorrow, zone=zone).bounds
    begun, end = ReportPeriod(first=today, end=tomorrow, zone=zone).bounds
    # Days of UTC are what rollups hold; a mean of four needs no other.
    past = ReportPeriod(first=today - timedelta(days=FORECAST_DAYS), end=today, zone="UTC")
    days = time_buckets(past, "day").edges
    edges = sorted({month[0], begun, end, *days})
    costs = readers.spend.costs_by_bucket(edges, asked.only)
    found = list(zip(edges, costs, strict=False))

    def nanos_between(first: int, last: int) -> int:
        return sum(nanos for start, nanos in found if first <= start < last)

    known = [(day.first, nanos_between(*day.bounds)) for day in past.days]
    return month_forecast(today, nanos_between(month[0], end), nanos_between(begun, end), known)


def _names(readers: Readers, by: CostDimension, values: Collection[str]) -> Mapping[str, str]:
    """Names of the values that are ids."""
    if by == "team":
        return readers.team_names()
    return readers.teams.key_names(values) if by == "key" else {}


def _split(asked: CostsQuestion) -> SpendSplit:
    if asked.by != "provider":
        return SpendSplit(part=asked.by, labels={}, limit=asked.top)
    labels = {name: whose for name, whose in asked.providers.items() if whose and whose != name}
    return SpendSplit(part="upstream", labels=labels, limit=asked.top)


def _layers(spend: SpendOverTime) -> dict[str, _Layer]:
    """Sums by value, of the period and of the one before it."""
    found: dict[str, _Layer] = defaultdict(_Layer)
    for row in spend.periods:
        layer = found[row.value]
        if row.bucket:
            layer.sums, layer.idle = row.sums, row.idle_nanos
        else:
            layer.before, layer.idle_before = row.sums, row.idle_nanos
    for row in spend.buckets:
        found[row.value].buckets[row.bucket] = row.sums
    return found


def _total(layers: Iterable[_Layer]) -> _Layer:
    """The sums of all values."""
    total = _Layer()
    for layer in layers:
        total.sums = total.sums.plus(layer.sums)
        total.before = total.before.plus(layer.before)
        total.idle += layer.idle
        total.idle_before += layer.idle_before
    return total


def _series(
    layers: Mapping[str, _Layer], n_buckets: int, names: Mapping[str, str]
) -> list[CostSeries]:
    """The layers, the dearest first, and all others last."""
    order = sorted(layers, key=lambda v: (v == OTHER_VALUES, -layers[v].sums.priced_nanos, v))
    nothing = CostSums()
    return [
        CostSeries(
            value=OTHERS if value == OTHER_VALUES else value or NO_VALUE,
            name=OTHERS if value == OTHER_VALUES else value_label(value, names),
            is_others=value == OTHER_VALUES,
            sums=cost_amounts(layers[value].sums, layers[value].idle),
            before=cost_amounts(layers[value].before, layers[value].idle_before),
            cost_nanos=[layers[value].buckets.get(n, nothing).cost_nanos for n in range(n_buckets)],
            calls=[layers[value].buckets.get(n, nothing).calls for n in range(n_buckets)],
        )
        for value in order
    ]
