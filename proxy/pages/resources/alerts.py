"""``/api/v1/alerts``: open alerts, one alert's cause and history, and what people do about it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel

from dashboards.access import Action, Viewer
from dashboards.board import AdminBoard, OpenAlert
from dashboards.views.alerts import (
    AlertEvent,
    AlertsView,
    AlertView,
    PageLink,
    alert_cause,
    alert_links,
)
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route, view_of
from proxy.store.sql.alert_records import (
    AlertRecord,
    AlertResponse,
    ResponseAction,
    acknowledged_by,
    current_snooze,
)
from proxy.store.sql.outbox import OutboxMessage
from proxy.store.store import Store
from slo.alert import Severity, urgency_key
from slo.policies.file import Policies

_MAX_ALERTS: Final = 50
_HOUR_S: Final = 3_600.0


class SnoozeRequest(BaseModel):
    """A snooze of so many hours; 0 ends one."""

    hours: Literal[0, 1, 24]


@dataclass(eq=False)
class AlertsResource(Resource):
    """Alerts as people see and answer them who see all teams: alerts name teams."""

    tag = "alerts"

    _board: AdminBoard
    _store: Store
    _ask: StoreQuestions
    _policies: Callable[[], Policies]
    _now: Clock

    @route("GET", "/alerts", name="list_alerts")
    async def list(self, viewer: SignedIn) -> AlertsView:
        """Lists open alerts; the stages of one budget are one alert."""
        check_allowed(viewer, Action.SEE_OPERATIONS)
        if viewer.teams is not None:
            return AlertsView(alerts=(), total=0)
        ranked = await self._open_alerts()
        if ranked is None:
            return AlertsView(alerts=None, total=None)
        awake = [alert for alert in ranked if alert.snoozed_until is None]
        snoozed = [alert for alert in ranked if alert.snoozed_until is not None]
        return AlertsView(
            alerts=awake[:_MAX_ALERTS],
            total=len(awake),
            notes=sum(alert.severity is Severity.NOTE for alert in awake),
            snoozed=snoozed[:_MAX_ALERTS],
        )

    async def of_objectives(self, viewer: Viewer) -> Mapping[str, Sequence[OpenAlert]]:
        """Open alerts about burning error budgets and missed floors, by objective."""
        check_allowed(viewer, Action.SEE_OPERATIONS)
        by_objective = defaultdict[str, list[OpenAlert]](list)
        alerts = (await self._open_alerts() or ()) if viewer.teams is None else ()
        for alert in sorted(alerts, key=lambda alert: alert.snoozed_until is not None):
            if alert.kind in {"burn", "floor"}:
                by_objective[alert.subject].append(alert)
        return by_objective

    async def _open_alerts(self) -> Sequence[OpenAlert] | None:
        """All open alerts, the most urgent first; None where they are unknown."""
        alerts = await self._board.open_alerts()
        if alerts is None:
            return None
        return sorted(alerts, key=lambda alert: urgency_key(alert.severity, alert.began))

    @route("GET", "/alerts/{alert_id}", name="alert")
    async def get(self, viewer: SignedIn, alert_id: str) -> AlertView:
        """One alert: what was measured, on which calls, what was done, and its history.

        Raises:
            CallerError: There is no such alert, or it is not for this viewer.
        """
        _check_sees_alerts(viewer)
        store = self._store
        record, teams = await self._ask.expect(
            "alert", lambda: (store.alert_records.find(alert_id), store.teams.all())
        )
        if record is None:
            raise _no_alert()
        alert, policies, now = record.alert, self._policies(), self._now()
        ids = {team.name: team.id for team in teams}
        cause = alert_cause(alert, policies.objectives, policies.budgets, ids, now)
        own = [response for response in record.responses if response.alert == alert.id]
        snooze = current_snooze(own, now) if alert.is_open else None
        return view_of(
            AlertView,
            alert,
            severity=alert.severity.value,
            done=alert.action,
            acknowledged_by=acknowledged_by(own),
            snoozed_until=None if snooze is None else snooze.until,
            snoozed_by="" if snooze is None else snooze.who,
            calls=cause.calls,
            later_calls=cause.later_calls,
            costs=cause.costs,
            objective="" if cause.objective is None else cause.objective.name,
            budget="" if cause.budget is None else cause.budget.name,
            links=alert_links(alert, cause),
            history=_history(record),
            replaced_by=_replacing_stage(record),
        )

    @route("POST", "/alerts/{alert_id}/acknowledge", name="acknowledge_alert")
    async def acknowledge(self, viewer: SignedIn, alert_id: str) -> AlertView:
        """Says that the viewer looks at an alert; nothing else changes.

        Raises:
            CallerError: There is no such alert, or it has ended.
        """
        return await self._respond(viewer, alert_id, "acknowledge")

    @route("POST", "/alerts/{alert_id}/snooze", name="snooze_alert")
    async def snooze(self, viewer: SignedIn, alert_id: str, request: SnoozeRequest) -> AlertView:
        """Keeps an alert off the first page and from sinks for some hours, or ends that.

        Raises:
            CallerError: There is no such alert, or it has ended.
        """
        until = self._now() + request.hours * _HOUR_S
        return await self._respond(viewer, alert_id, "snooze", until)

    async def _respond(
        self, viewer: Viewer, alert_id: str, action: ResponseAction, until: float | None = None
    ) -> AlertView:
        check_allowed(viewer, Action.ANSWER_ALERTS)
        records = self._store.alert_records
        response = AlertResponse(
            alert=alert_id, action=action, at=self._now(), who=viewer.name, until=until
        )
        if not await self._ask.answer("alert", lambda: records.respond(response)):
            if await self._ask.answer("alert", lambda: records.find(alert_id)) is None:
                raise _no_alert()
            raise CallerError("This alert has ended.", code="alert_ended", status=409)
        return await self.get(viewer, alert_id)


def _check_sees_alerts(viewer: Viewer) -> None:
    """Checks that a viewer sees all teams; else raises CallerError."""
    check_allowed(viewer, Action.SEE_OPERATIONS)
    if viewer.teams is not None:
        raise CallerError(
            "Alerts name teams: those who see all teams see them.", code="not_allowed", status=403
        )


def _no_alert() -> CallerError:
    return CallerError(
        "There is no alert of this id; they are kept for 90 days after their end.",
        code="unknown_alert",
        status=404,
    )


def _replacing_stage(record: AlertRecord) -> PageLink | None:
    """The most urgent open stage, as lists show it, of an open alert; None where it is that."""
    stages = [stage for stage in record.stages if stage.is_open and record.alert.is_open]
    first = min(stages, key=lambda stage: urgency_key(stage.severity, stage.began), default=None)
    if first is None or first.id == record.alert.id:
        return None
    return PageLink(title=first.title, path=f"/alerts/{first.id}")


def _history(record: AlertRecord) -> list[AlertEvent]:
    """The history of an alert and of the other stages of its problem, from the first on."""
    stages = record.stages
    events = [
        AlertEvent(
            at=stage.began, kind="began" if stage is stages[0] else "escalated", text=stage.title
        )
        for stage in stages
    ]
    for message in record.messages:
        events += _delivery_events(message, has_stages=len(stages) > 1)
    # A response to several stages is one.
    responses = {(response.action, response.at): response for response in record.responses}
    events += map(_response_event, responses.values())
    if (ended := stages[-1].ended) is not None:
        events.append(AlertEvent(at=ended, kind="ended"))
    return sorted(events, key=lambda event: event.at)


def _delivery_events(message: OutboxMessage, *, has_stages: bool) -> Iterator[AlertEvent]:
    """The last delivery to a sink, and why it has failed since."""
    where, alert = f"to {message.sink}", message.alert
    if message.sent is not None:
        text = f"{where}: {alert.title}" if has_stages else where
        yield AlertEvent(at=message.sent, kind="sent", text=text)
    if message.why:
        yield AlertEvent(at=alert.began, kind="not sent", text=f"{where}: {message.why}")


def _response_event(response: AlertResponse) -> AlertEvent:
    kind = "acknowledged"
    if response.action == "snooze":
        kind = "snoozed" if (response.until or 0.0) > response.at else "snooze ended"
    return AlertEvent(at=response.at, kind=kind, who=response.who, until=response.until)
