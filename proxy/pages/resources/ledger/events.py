"""``/api/v1/events`` and ``/api/v1/deploys``: what changed in a period, as marks over charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from dashboards.access import Action, Viewer
from dashboards.board import Reroute
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import PeriodQuery
from proxy.pages.resources.objectives import ObjectivesResource
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import Clock, Name, SignedIn, check_allowed, route
from proxy.store.sql.views.events import MAX_EVENTS, EventView, events_view
from proxy.store.store import Store


class DeployRequest(BaseModel):
    """A mark that something was deployed."""

    name: Name = Field(description="What was deployed: `shop 4.2`.")
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
        return await self.events_between(viewer, query.period(self._now()).bounds)

    @route("POST", "/deploys", name="mark_deploy", status_code=204)
    async def mark_deploy(self, viewer: SignedIn, request: DeployRequest) -> None:
        """Marks a deploy on every chart over time, for all who see it."""
        check_allowed(viewer, Action.CHANGE_CONFIGURATION)
        mark = self._store.audit.mark_deploy
        try:
            await self._store.ask(mark, request.name, viewer.name, self._now(), request.at)
        except ValueError as error:
            reason = f"{error} `at` is seconds since the epoch."
            raise CallerError(reason, code="invalid_time", param="at") from None

    async def events_between(
        self, viewer: Viewer, bounds: tuple[float, float]
    ) -> Sequence[EventView]:
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
