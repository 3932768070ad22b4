"""Hit rates, reasons for misses, and the evidence for one: ``/api/v1/cache``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.report_periods import BucketUnit
from dashboards.views.cache_health import (
    CacheDimension,
    CacheFloor,
    CacheHealthView,
    MissEvidenceView,
)
from proxy.catalog.catalog import Catalog
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import PlaceQuery, buckets_of, json_response
from proxy.pages.store_questions import StoreQuestions, json_bytes
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.prefix.explain.reasons import FIXES
from proxy.store.sql.views.cache_health import CacheQuestion, cache_health_view, compare_prompts
from proxy.store.store import Store
from slo.objectives.objective import Metric, Objective

T = TypeVar("T")

_MAX_SERIES: Final = 50


class CacheQuery(PlaceQuery):
    """A question for caches' health."""

    by: CacheDimension = Field("feature", description="The dimension of the series.")
    unit: BucketUnit | None = Field(None, description="Length of a bucket; one that suits.")
    top: int = Field(8, ge=1, le=_MAX_SERIES, description="Values kept apart, by prompt tokens.")


@dataclass(eq=False)
class CacheHealth(Resource):
    """Caches' health, as pages and the API read it.

    Attributes:
        max_loss_nanos: Amount that a feature's marks may lose, as the setting says.
    """

    tag = "cache"
    max_loss_nanos = 0

    _store: Store
    _ask: StoreQuestions
    _catalog: Callable[[], Catalog]
    _objectives: Callable[[], Sequence[Objective]]
    _now: Clock

    async def cache_health(
        self, viewer: Viewer, query: CacheQuery, finish: Callable[[CacheHealthView], T]
    ) -> T:
        """Hit rates and misses of the teams that a viewer may see, in the form asked for."""
        check_allowed(viewer, Action.SEE_COSTS)
        period = query.period(self._now())
        catalog = self._catalog()
        question = CacheQuestion(
            by=query.by,
            top=query.top,
            period=period,
            buckets=buckets_of(period, query.unit),
            only=query.spend_filter(viewer, catalog.providers),
            providers=catalog.providers,
            regimes=_regimes(catalog) if query.by == "regime" else {},
            floors=_floors(self._objectives()),
            max_loss_nanos=self.max_loss_nanos,
        )
        return await self._ask.view("cache", cache_health_view, question, finish)

    @route("GET", "/cache", name="cache", response_model=CacheHealthView)
    async def json(self, viewer: SignedIn, query: Annotated[CacheQuery, Query()]) -> Response:
        """Hit rates over time against their floors, and reasons for misses."""
        return json_response(await self.cache_health(viewer, query, json_bytes))

    @route("GET", "/cache/misses/{call_id}", name="miss")
    async def evidence(self, viewer: SignedIn, call_id: str) -> MissEvidenceView:
        """Evidence for the miss of a call, and where its prompt parts from the last hit's."""
        check_allowed(viewer, Action.SEE_CALLS)
        evidence = await self._ask.expect("evidence", lambda: self._read_evidence(viewer, call_id))
        if not evidence:
            raise CallerError(
                "There is no such call of your teams whose cache missed.",
                code="miss_not_found",
                status=404,
            )
        return evidence[0]

    def _read_evidence(self, viewer: Viewer, call_id: str) -> list[MissEvidenceView]:
        """The evidence, in a list of one; [] where there is none for them; blocks."""
        receipts = self._store.ledger.attempts(call_id)
        seen = [
            attempt for attempt in receipts if viewer.teams is None or attempt.team in viewer.teams
        ]
        missed = [attempt for attempt in seen if attempt.miss]
        if not missed:
            return []
        receipt = missed[-1]
        pair = self._store.dashboard.read(compare_prompts, call_id)
        return [
            MissEvidenceView(
                call_id=call_id,
                attempt=receipt.attempt,
                reason=receipt.miss,
                detail=receipt.miss_detail,
                fix=FIXES.get(receipt.miss, ""),
                expected_tokens=receipt.expected_read,
                read_tokens=None if receipt.usage is None else receipt.usage.cache_read,
                missed_tokens=receipt.miss_tokens,
                missed_nanos=receipt.miss_nanos,
                hit_call_id=pair.hit_call_id,
                difference=pair.difference,
                keeps_prompts=pair.keeps_prompts,
            )
        ]


def _regimes(catalog: Catalog) -> dict[str, str]:
    """The rules that the cache of each route follows, by the route's name."""
    return {route.name: route.regime for model in catalog.models.values() for route in model.routes}


def _floors(objectives: Sequence[Objective]) -> list[CacheFloor]:
    """The floors of hit rates; objectives have teams by their names."""
    return [
        CacheFloor(
            objective=objective.name,
            team=objective.team,
            feature=objective.feature,
            floor=objective.target,
        )
        for objective in objectives
        if objective.metric is Metric.CACHE
    ]
