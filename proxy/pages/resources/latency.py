"""Latencies over time, as a heat map and percentiles: ``/api/v1/latency``."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import Field

from dashboards.access import Action, Viewer
from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.views.latency import (
    EnginePhases,
    LatencyDimension,
    LatencyLine,
    LatencyMetric,
    LatencyRow,
    LatencyUnit,
    LatencyView,
)
from proxy.errors import CallerError
from proxy.pages.resources.queries import CallQuery, store_answer, value_label
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.store.sql.latency_histograms import Histogram, LatencyReader
from proxy.store.store import Store
from slo.latency_buckets import BOUNDS_MICROS, MAX_ERROR, percentiles

_LENGTH_S: Final[Mapping[LatencyUnit, int]] = {"hour": 3_600, "day": 86_400, "week": 604_800}
_MAX_HOUR_DAYS: Final = 8
_USUAL_HOUR_DAYS: Final = 3
_MAX_DAYS: Final = 100
#: Monday is the fifth day of the epoch, which began on a Thursday.
_FIRST_MONDAY_S: Final = 4 * 86_400
#: The zone of days and weeks, whose sums are made once.
_DAYS_ZONE: Final = "UTC"
_MAX_ROWS: Final = 50
_PERCENTS: Final = (50, 95, 99)
_MICROS: Final = 1e6


class LatencyQuery(CallQuery):
    """A question for latencies; hours know no filter but teams."""

    metric: LatencyMetric = Field("ttft", description="The latency.")
    by: LatencyDimension = Field("feature", description="The dimension of the rows.")
    unit: LatencyUnit | None = Field(None, description="Length of a bucket; one that suits.")
    top: int = Field(20, ge=1, le=_MAX_ROWS, description="Rows, those with most calls.")


class LatencyResource:
    """Latencies, as pages and the API read them.

    Args:
        store: The store.
        ask: Asks it, few questions at once.
        now: Seconds since the epoch.
    """

    def __init__(self, store: Store, ask: StoreQuestions, now: Callable[[], float]) -> None:
        self._store = store
        self._ask = ask
        self._now = now

    async def latency(self, viewer: Viewer, query: LatencyQuery) -> LatencyView:
        """Latencies of a period, of the teams that a viewer may see.

        Raises:
            CallerError: They may see no costs, or the question has a fault.
            Unready: The database did not answer in time.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        period = query.period(self._now())
        only = query.spend_filter(viewer, {})
        unit = _unit(query, period, only)
        return store_answer(
            await self._ask("latency", lambda: self._read(query, period, unit, only))
        )

    def router(self) -> APIRouter:
        """The route of the API."""
        routes = APIRouter(tags=["latency"])

        @routes.get("/latency")
        async def latency(viewer: SignedIn, query: Annotated[LatencyQuery, Query()]) -> LatencyView:
            """A heat map of latencies, their percentiles over time and by value, and phases."""
            return await self.latency(viewer, query)

        return routes

    def _read(
        self, query: LatencyQuery, period: ReportPeriod, unit: LatencyUnit, only: SpendFilter
    ) -> LatencyView:
        """Reads and adds up; blocks."""
        read, bounds = self._store.dashboard.read, period.bounds
        by_time = LatencyReader.by_hour if unit == "hour" else LatencyReader.by_day
        found = read(by_time, query.metric, *bounds, only)
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
        values = read(LatencyReader.by_value, query.metric, query.by, bounds, only, query.top)
        return LatencyView(
            first=period.first,
            last=period.end - timedelta(days=1),
            tz=period.zone if unit == "hour" else _DAYS_ZONE,
            metric=query.metric,
            by=query.by,
            unit=unit,
            starts=list(starts),
            end=end,
            bounds=[each / _MICROS for each in BOUNDS_MICROS[low:high]],
            counts=[[each[n] for n in range(low, high + 1)] for each in buckets],
            lines=[_percentiles(each) for each in buckets],
            total=_percentiles(total),
            rows=_rows(values, self._names(query.by)),
            phases=_phases(read(LatencyReader.phases, *bounds, only)),
            max_error=MAX_ERROR,
        )

    def _names(self, by: LatencyDimension) -> Mapping[str, str]:
        if by != "team":
            return {}
        return {team.id: team.name for team in self._store.teams.all()}


def _unit(query: LatencyQuery, period: ReportPeriod, only: SpendFilter) -> LatencyUnit:
    """The unit that is asked for, or one that suits.

    Raises:
        CallerError: It does not suit the period or the filters.
    """
    days = (period.end - period.first).days
    has_filter = bool(set(only.values) - {"team"})
    if query.unit is None:
        if days <= _USUAL_HOUR_DAYS and not has_filter:
            return "hour"
        return "day" if days <= _MAX_DAYS else "week"
    if query.unit == "hour" and (has_filter or days > _MAX_HOUR_DAYS):
        raise CallerError(
            f"unit=hour is for at most {_MAX_HOUR_DAYS} days, and for teams alone; take unit=day.",
            code="invalid_period",
            param="unit",
        )
    if query.unit == "day" and days > _MAX_DAYS:
        raise CallerError(
            f"unit=day is for at most {_MAX_DAYS} days; take unit=week.",
            code="invalid_period",
            param="unit",
        )
    return query.unit


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
