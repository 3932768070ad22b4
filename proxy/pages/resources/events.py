"""``/api/v1/events``: what changed in a period, to be seen over costs, latencies and hit rates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query

from dashboards.access import Action, Viewer
from dashboards.reports import ReportPeriod
from proxy.pages.resources.objectives import ObjectivesResource
from proxy.pages.resources.queries import PeriodQuery
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.store.sql.audit_log import AuditEntry
from proxy.store.store import Store
from slo.alert import Alert, Severity

#: Events of a period that are told, the newest.
MAX_EVENTS: Final = 40
#: Changes that people make and that move costs, latencies or hit rates, by their kind.
_CHANGES: Final[Mapping[str, str]] = {
    "approve layout": "layout",
    "roll back layout": "layout",
    "resume layouts": "layout",
    "set layout mode": "mode",
    "set compaction mode": "mode",
    "resume compaction": "mode",
    "pin objective": "pin",
    "release objective": "pin",
    "reload configuration": "configuration",
}
#: The kind of alerts about the controller's moves, which are events by themselves.
_MOVE: Final = "move"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """Something that happened, which may be why a line bends.

    Attributes:
        at: Seconds since the epoch.
        kind: ``fallback``, ``alert``, ``layout``, ``mode``, ``pin`` or ``configuration``.
        title: All of it in a few words.
        why: Its reason, or the values that changed; "" for none.
        is_bad: True if something went wrong.
    """

    at: float
    kind: str
    title: str
    why: str = ""
    is_bad: bool = False


class EventsResource:
    """Events as viewers see them.

    Args:
        store: Holds alerts and changes.
        ask: Asks it, within the time of a page.
        objectives: Knows the controller's reroutes.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        ask: StoreQuestions,
        objectives: ObjectivesResource,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._ask = ask
        self._objectives = objectives
        self._now = now

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
        found = [
            EventView(
                at=each.began,
                kind="fallback",
                title=f"{each.objective}: {each.source or 'as asked'} → {each.level or 'as asked'}",
                why=each.why,
                is_bad=each.state == "degraded",
            )
            for each in reroutes
            if start <= each.began < end
        ]
        read = await self._ask("events", lambda: self._read(viewer, start, end))
        return sorted([*found, *(read or ())], key=lambda each: -each.at)[:MAX_EVENTS]

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

    def _read(self, viewer: Viewer, start: float, end: float) -> Sequence[EventView]:
        """Alerts and changes; blocks."""
        changes = self._store.audit.changes_between(start, end, _CHANGES, MAX_EVENTS)
        names = {each.id: each.name for each in self._store.teams.all()}
        found = [_change_event(each, names) for each in changes if _may_see(viewer, each)]
        if viewer.teams is None:
            alerts = self._store.outbox.begun_between(start, end, MAX_EVENTS)
            found += [_alert_event(each) for each in alerts if each.kind != _MOVE]
        return found


def _may_see(viewer: Viewer, entry: AuditEntry) -> bool:
    """True for changes of own teams, and of no team in particular."""
    team = entry.change.team
    return viewer.teams is None or team is None or team in viewer.teams


def _change_event(entry: AuditEntry, names: Mapping[str, str]) -> EventView:
    """A change, without who made it: that stands in the audit log."""
    change = entry.change
    team = "" if change.team is None else f"{names.get(change.team, change.team)}, "
    before, after = change.before or {}, change.after or {}
    differing = [
        f"{name}: {_text(before.get(name))} → {_text(value)}"
        for name, value in after.items()
        if before.get(name) != value
    ]
    return EventView(
        at=entry.at,
        kind=_CHANGES[change.action],
        title=f"{change.action}: {team}{change.subject}",
        why=", ".join(differing) if change.before is not None else "",
    )


def _alert_event(alert: Alert) -> EventView:
    return EventView(
        at=alert.began,
        kind="alert",
        title=alert.title,
        why=alert.action,
        is_bad=alert.severity is Severity.PAGE,
    )


def _text(value: object) -> str:
    return "none" if value is None or value == "" else str(value)
