"""``/api/v1/events`` and ``/api/v1/deploys``: what changed in a period, as marks over charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from dashboards.access import Action, Viewer
from dashboards.board import Reroute
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import PeriodQuery
from proxy.pages.resources.objectives import ObjectivesResource
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.store.sql.access.audit_log import DEPLOY_ACTION, AuditedChange
from proxy.store.sql.views.events import MAX_EVENTS, EventView, events_view
from proxy.store.store import Store

#: Seconds that a deploy may be marked after it, and before it, by clocks that differ.
_MAX_LATE_S: Final = 30 * 86_400.0
_MAX_EARLY_S: Final = 60.0


class DeployRequest(BaseModel):
    """A mark that something was deployed."""

    model_config = ConfigDict(str_strip_whitespace=True)

    name: str = Field(min_length=1, max_length=200, description="What was deployed: `shop 4.2`.")
    at: float | None = Field(None, description="Its time; now.")


@dataclass(eq=False)
class EventsResource(Resource):
    """Events as viewers see them; what is not known just now is left out.

    A member sees changes of own teams and reroutes of their objectives; alerts name teams, so only
    who sees all teams has them.
    """

    tag = "events"

    _store: Store
    _ask: StoreQuestions
    _objectives: ObjectivesResource
    _now: Clock

    @route("GET", "/events", name="list_events")
    async def list(
        self, viewer: SignedIn, query: Annotated[PeriodQuery, Query()]
    ) -> Sequence[EventView]:
        """Fallbacks, alerts, and changes of modes and layouts in a period, the newest first."""
        check_allowed(viewer, Action.SEE_OPERATIONS)
        return await self.between(viewer, query.period(self._now()).bounds)

    @route("POST", "/deploys", name="mark_deploy", status_code=204)
    async def mark_deploy(self, viewer: SignedIn, request: DeployRequest) -> None:
        """Marks a deploy on every chart over time, for all who see it."""
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        now = self._now()
        at = now if request.at is None else request.at
        if not now - _MAX_LATE_S <= at <= now + _MAX_EARLY_S:
            raise CallerError(
                "A deploy is marked within 30 days after it; `at` is seconds since the epoch.",
                code="invalid_time",
                param="at",
            )
        change = AuditedChange(who=viewer.name, action=DEPLOY_ACTION, subject=request.name)
        await self._store.ask(self._store.audit.append, change, at)

    async def between(self, viewer: Viewer, bounds: tuple[float, float]) -> Sequence[EventView]:
        """Events between two moments, the newest first."""
        start, end = bounds
        reroutes = (await self._objectives.list(viewer)).reroutes or ()
        fallbacks = [
            EventView(
                at=reroute.began,
                kind="fallback",
                title=f"{reroute.objective}: {_change(reroute)}",
                why=reroute.why,
                is_bad=reroute.state == "degraded",
            )
            for reroute in reroutes
            if start <= reroute.began < end
        ]
        changes = await self._ask(
            "events", lambda: self._store.dashboard.read(events_view, viewer, start, end)
        )
        return sorted([*fallbacks, *(changes or ())], key=lambda event: -event.at)[:MAX_EVENTS]


def _change(reroute: Reroute) -> str:
    """The levels before and after; the new state where the level is the same."""
    if reroute.source == reroute.level:
        return reroute.state
    return f"{reroute.source or 'as asked'} → {reroute.level or 'as asked'}"
