"""Latencies over time, and the last minutes: ``/api/v1/latency`` and ``/api/v1/minutes``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, TypeVar

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.reports import ReportPeriod, SpendFilter
from dashboards.views.latency import (
    LatencyDimension,
    LatencyMetric,
    LatencyUnit,
    LatencyView,
    LatencyWindow,
)
from dashboards.views.minutes import MinutesDimension, MinutesView, MinutesWindow
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import (
    CallQuery,
    OptionalTag,
    PlaceQuery,
    TagDimension,
    json_response,
)
from proxy.pages.store_questions import StoreQuestions, json_bytes
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.store.sql.views.latency import LatencyQuestion, latency_view
from proxy.store.sql.views.live.latencies import window_bounds, window_latencies, window_unit
from proxy.store.sql.views.live.minutes import MinutesQuestion, minutes_view

T = TypeVar("T")

_MAX_HOUR_DAYS: Final = 8
_USUAL_HOUR_DAYS: Final = 3
_MAX_DAYS: Final = 100
_MAX_ROWS: Final = 50


class LatencyQuery(CallQuery):
    """A question for latencies; hours know no filter but teams, a window knows all."""

    metric: LatencyMetric = Field("ttft", description="The latency.")
    by: LatencyDimension = Field("feature", description="The dimension of the rows.")
    unit: LatencyUnit | None = Field(None, description="Length of a bucket; one that suits.")
    window: LatencyWindow | None = Field(None, description="A window that ends now, no days.")
    top: int = Field(20, ge=1, le=_MAX_ROWS, description="Rows, those with most calls.")

    def bounds(self, now: float) -> tuple[float, float]:
        """The moments that are asked for, in seconds since the epoch."""
        if self.window is None:
            return self.period(now).bounds
        return window_bounds(self.window, now)


class MinutesQuery(PlaceQuery):
    """A question for a window that ends now; ``from`` and ``to`` do not count."""

    window: MinutesWindow = Field("1h", description="The window's length.")
    by: MinutesDimension | TagDimension = Field(
        "route", description="The dimension of the rows; a tag as `tag:customer`."
    )
    tag: OptionalTag = None


@dataclass(eq=False)
class LatencyResource(Resource):
    """Latencies, as pages and the API read them."""

    tag = "latency"

    _ask: StoreQuestions
    _providers: Callable[[], Mapping[str, str]]
    _now: Clock

    @route("GET", "/minutes", name="minutes", response_model=MinutesView)
    async def minutes_json(
        self, viewer: SignedIn, query: Annotated[MinutesQuery, Query()]
    ) -> Response:
        """Calls, errors, cost and percentiles by the minute, of a window that ends now."""
        return json_response(await self.minutes(viewer, query, json_bytes))

    async def minutes(
        self, viewer: Viewer, query: MinutesQuery, finish: Callable[[MinutesView], T]
    ) -> T:
        """A window that ends now, of the teams that a viewer may see, in the form asked for."""
        check_allowed(viewer, Action.SEE_COSTS)
        question = MinutesQuestion(
            window=query.window,
            by=query.by,
            only=query.spend_filter(viewer, self._providers()),
            now=self._now(),
            sees_calls=viewer.may(Action.SEE_CALLS),
        )
        return await self._ask.view("minutes", minutes_view, question, finish)

    @route("GET", "/latency", name="latency", response_model=LatencyView)
    async def json(self, viewer: SignedIn, query: Annotated[LatencyQuery, Query()]) -> Response:
        """A heat map of latencies, their percentiles over time and by value, and phases."""
        return json_response(await self.latency(viewer, query, json_bytes))

    async def latency(
        self, viewer: Viewer, query: LatencyQuery, finish: Callable[[LatencyView], T]
    ) -> T:
        """Latencies of a period, of the teams that a viewer may see, in the form asked for."""
        check_allowed(viewer, Action.SEE_COSTS)
        period = query.period(self._now())
        only = query.spend_filter(viewer, {})
        question = LatencyQuestion(
            metric=query.metric,
            by=query.by,
            top=query.top,
            period=period,
            unit=_unit(query, period, only) if query.window is None else window_unit(query.window),
            only=only,
        )
        if query.window is not None:
            read = partial(window_latencies, window=query.window, now=self._now())
            return await self._ask.view("latency", read, question, finish)
        return await self._ask.view("latency", latency_view, question, finish)


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
