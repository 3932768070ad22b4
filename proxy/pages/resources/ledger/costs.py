"""Costs over time, stacked by one dimension: ``/api/v1/costs``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, TypeVar

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.report_periods import BucketUnit
from dashboards.reports import ReportPeriod
from dashboards.views.comparisons import Comparison
from dashboards.views.costs import CostDimension, CostsView
from proxy.errors import Unready
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import (
    FilterQuery,
    buckets_of,
    json_response,
    local_day,
)
from proxy.pages.store_questions import StoreQuestions, json_bytes, view_itself
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.store.sql.views.cost_reports import has_more_receipts
from proxy.store.sql.views.costs import CostsQuestion, costs_view

T = TypeVar("T")

_MAX_SERIES: Final = 50
#: Receipts of a period that are read while a page waits, with those of the period before.
_PAGE_RECEIPTS: Final = 300_000


class CostsQuery(FilterQuery):
    """A question for costs."""

    by: CostDimension = Field("team", description="The dimension of the stack.")
    unit: BucketUnit | None = Field(None, description="Length of a bucket; one that suits.")
    compare: Comparison = Field(
        "previous", description="The period before, or the same days a month ago."
    )
    top: int = Field(8, ge=1, le=_MAX_SERIES, description="Values kept apart, the dearest.")

    @property
    def reads_receipts(self) -> bool:
        """True if users or tags are told apart: each call is read, however many there are."""
        return self.by == "user" or self.user is not None or self.tag is not None


@dataclass(eq=False)
class Costs(Resource):
    """Costs, as pages and the API read them.

    Args:
        providers: Returns the provider of each upstream.
    """

    tag = "costs"

    _ask: StoreQuestions
    _providers: Callable[[], Mapping[str, str]]
    _now: Clock

    def question(self, viewer: Viewer, query: CostsQuery) -> CostsQuestion:
        """The question for costs of the teams that a viewer may see."""
        check_allowed(viewer, Action.SEE_COSTS)
        now, providers = self._now(), self._providers()
        period = query.period(now)
        return CostsQuestion(
            by=query.by,
            top=query.top,
            period=period,
            buckets=buckets_of(period, query.unit),
            only=query.spend_filter(viewer, providers),
            providers=providers,
            today=local_day(now, period.zone),
            compare=query.compare,
        )

    @route("GET", "/costs", name="costs", response_model=CostsView)
    async def json(self, viewer: SignedIn, query: Annotated[CostsQuery, Query()]) -> Response:
        """Costs over time, stacked by one dimension, beside the period before."""
        return json_response(await self.costs(viewer, query, json_bytes))

    async def costs(self, viewer: Viewer, query: CostsQuery, finish: Callable[[CostsView], T]) -> T:
        """Costs of a period in the form that is asked for."""
        question = self.question(viewer, query)
        if not (query.reads_receipts and await self._is_long(question.period)):
            try:
                return await self._ask.view("costs", costs_view, question, finish)
            except Unready:
                if not query.reads_receipts:
                    raise
        raise Unready(
            "Users and tags are told apart by reading each call of the period, which takes too long"
            " here: /api/v1/reports/cost?by=user is made in the background, and"
            " `thriftgate report cost --by user` takes as long as it needs.",
            code="store_busy",
            retry_after=5.0,
        )

    async def _is_long(self, period: ReportPeriod) -> bool:
        """True if the period has more receipts than are read while a page waits."""
        count = partial(has_more_receipts, count=_PAGE_RECEIPTS)
        return await self._ask.view("receipts of costs", count, period, view_itself)
