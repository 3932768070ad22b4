"""Costs over time, stacked by one dimension: ``/api/v1/costs``."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from dashboards.access import Action, Viewer
from dashboards.cost_reports import CostSums
from dashboards.reports import Part, ReportPeriod, SpendFilter
from dashboards.time_buckets import BucketUnit, TimeBuckets, period_before, time_buckets
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
)
from proxy.pages.resources.queries import (
    FilterQuery,
    buckets_of,
    local_day,
    store_answer,
    value_label,
)
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.store.sql.spend_series import SpendOverTime, SpendSeries, SpendSplit
from proxy.store.sql.value_sums import OTHER_VALUES
from proxy.store.store import Store

_MAX_SERIES: Final = 50


class CostsQuery(FilterQuery):
    """A question for costs."""

    by: CostDimension = Field("team", description="The dimension of the stack.")
    unit: BucketUnit | None = Field(None, description="Length of a bucket; one that suits.")
    top: int = Field(8, ge=1, le=_MAX_SERIES, description="Values kept apart, the dearest.")


@dataclass(slots=True)
class _Layer:
    """Sums of one value, added up."""

    sums: CostSums = field(default_factory=CostSums)
    idle: int = 0
    before: CostSums = field(default_factory=CostSums)
    idle_before: int = 0
    buckets: dict[int, CostSums] = field(default_factory=dict)


class Costs:
    """Costs, as pages and the API read them.

    Args:
        store: The store.
        ask: Asks it, few questions at once.
        providers: Returns the provider of each upstream.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        ask: StoreQuestions,
        providers: Callable[[], Mapping[str, str]],
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._ask = ask
        self._providers = providers
        self._now = now

    async def costs(self, viewer: Viewer, query: CostsQuery) -> CostsView:
        """Costs of a period, of the teams that a viewer may see.

        Raises:
            CallerError: They may see no costs, or the question has a fault.
            Unready: The database did not answer in time.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        period = query.period(self._now())
        buckets = buckets_of(period, query.unit)
        only = query.spend_filter(viewer, self._providers())
        return store_answer(
            await self._ask("costs", lambda: self._read(query, period, buckets, only))
        )

    def router(self) -> APIRouter:
        """The route of the API."""
        routes = APIRouter(tags=["costs"])

        @routes.get("/costs")
        async def costs(viewer: SignedIn, query: Annotated[CostsQuery, Query()]) -> CostsView:
            """Costs over time, stacked by one dimension, beside the period before."""
            return await self.costs(viewer, query)

        return routes

    def _read(
        self, query: CostsQuery, period: ReportPeriod, buckets: TimeBuckets, only: SpendFilter
    ) -> CostsView:
        """Reads and adds up; blocks."""
        earlier = period_before(period)
        edges = (earlier.bounds[0], *buckets.edges)
        split = _split(query, self._providers())
        spend = self._store.dashboard.read(SpendSeries.spend_over_time, edges, split, only)
        layers = _layers(spend)
        whole = _total(layers.values())
        unattributed = sum(row.unattributed_nanos for row in spend.periods if row.bucket)
        return CostsView(
            first=period.first,
            last=period.end - timedelta(days=1),
            tz=period.zone,
            by=query.by,
            unit=buckets.unit,
            starts=buckets.starts,
            end=buckets.edges[-1],
            series=_series(layers, len(buckets.starts), self._names(query.by, layers)),
            total=cost_amounts(whole.sums, whole.idle),
            before=cost_amounts(whole.before, whole.idle_before),
            before_first=earlier.first,
            unattributed_nanos=unattributed,
            unattributed_share=share(unattributed, whole.sums.priced_nanos),
            unpriced_share=share(whole.sums.unpriced, whole.sums.attempts),
            month=self._month(period.zone, only),
        )

    def _month(self, zone: str, only: SpendFilter) -> MonthForecast:
        """The current month so far, and its forecast."""
        today = local_day(self._now(), zone)
        tomorrow = today + timedelta(days=1)
        month = ReportPeriod(first=today.replace(day=1), end=tomorrow, zone=zone).bounds
        begun, end = ReportPeriod(first=today, end=tomorrow, zone=zone).bounds
        # Days of UTC are what rollups hold; a mean of four needs no other.
        past = ReportPeriod(first=today - timedelta(days=FORECAST_DAYS), end=today, zone="UTC")
        days = time_buckets(past, "day").edges
        edges = sorted({month[0], begun, end, *days})
        costs = self._store.dashboard.read(SpendSeries.costs_by_bucket, edges, only)
        found = list(zip(edges, costs, strict=False))

        def nanos_between(first: int, last: int) -> int:
            return sum(nanos for start, nanos in found if first <= start < last)

        known = [(day.first, nanos_between(*day.bounds)) for day in past.days]
        return month_forecast(today, nanos_between(month[0], end), nanos_between(begun, end), known)

    def _names(self, by: CostDimension, values: Collection[str]) -> Mapping[str, str]:
        """Names of the values that are ids."""
        if by == "team":
            return {team.id: team.name for team in self._store.teams.all()}
        return self._store.teams.key_names(values) if by == "key" else {}


def _split(query: CostsQuery, providers: Mapping[str, str]) -> SpendSplit:
    part: Part = "upstream" if query.by == "provider" else query.by
    labels = {name: whose for name, whose in providers.items() if whose and whose != name}
    return SpendSplit(
        part=part,
        labels=labels if query.by == "provider" else {},
        limit=query.top,
    )


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
