"""``/api/v1/events``: what changed in a period, to be seen over costs, latencies and hit rates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from dashboards.access import Action, Viewer
from dashboards.board import Reroute
from dashboards.reports import ReportPeriod
from proxy.pages.resources.ledger.queries import PeriodQuery
from proxy.pages.resources.objectives import ObjectivesResource
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.store.sql.views.events import MAX_EVENTS, EventView, events_view
from proxy.store.store import Store


@dataclass(eq=False)
class EventsResource:
    """Events as viewers see them.

    Args:
        store: Holds alerts and changes.
        ask: Asks it, within the time of a page.
        objectives: Knows the controller's reroutes.
        now: Seconds since the epoch.
    """

    _store: Store
    _ask: StoreQuestions
    _objectives: ObjectivesResource
    _now: Callable[[], float]

    async def list(self, viewer: Viewer, period: ReportPeriod) -> Sequence[EventView]:
        """Events of a period, the newest first; what is not known just now is left out.

        A member sees changes of own teams and reroutes of their objectives; alerts name teams, so
        only who sees all teams has them.

        Raises:
            CallerError: They may see none.
        """
        check_allowed(viewer, Action.SEE_OPERATIONS)
        start, end = period.bounds
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
        return sorted([*fallbacks, *(changes or ())], key=lambda reroute: -reroute.at)[:MAX_EVENTS]

    def router(self) -> APIRouter:
        """Routes of the API."""
        routes = APIRouter(tags=["events"])

        @routes.get("/events")
        async def list_events(
            viewer: SignedIn, query: Annotated[PeriodQuery, Query()]
        ) -> Sequence[EventView]:
            """Fallbacks, alerts, and changes of modes and layouts in a period, the newest first."""
            return await self.list(viewer, query.period(self._now()))

        return routes


def _change(reroute: Reroute) -> str:
    """The levels before and after; the new state where the level is the same."""
    if reroute.source == reroute.level:
        return reroute.state
    return f"{reroute.source or 'as asked'} → {reroute.level or 'as asked'}"
