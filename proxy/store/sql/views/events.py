"""Alerts and changes of a period, read as events to be seen over its costs and latencies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dashboards.access import Viewer
from dashboards.views.access import AuditEntryView
from proxy.store.sql.access.audit_log import (
    DEPLOY_ACTION,
    MAX_EARLY_DEPLOY_S,
    MAX_LATE_DEPLOY_S,
)
from proxy.store.sql.views.readers import Readers
from slo.alert import Alert, Severity
from slo.policies.fast_path_switches import SwitchedPart

#: Events of a period that are shown, the newest.
MAX_EVENTS: Final = 40
#: Deploys that are read, the newest: some are marked after the period.
_MAX_DEPLOYS: Final = 1_000
#: Changes that people make and that move costs, latencies or hit rates, by their kind.
_POLICY: Final = "policy"
_CHANGES: Final[Mapping[str, str]] = {
    **{
        f"{verb} {noun}": _POLICY
        for verb in ("create", "change", "remove")
        for noun in ("budget", "ceiling", "objective", "model", "model alias")
    },
    **{
        f"{verb} {part.value}": "fast path"
        for verb in ("disable", "enable")
        for part in SwitchedPart
    },
    "approve layout": "layout",
    "roll back layout": "layout",
    "resume layouts": "layout",
    "set layout mode": "mode",
    "set compaction mode": "mode",
    "resume compaction": "mode",
    "pin objective": "pin",
    "release objective": "pin",
    "reload configuration": "configuration",
    DEPLOY_ACTION: "deploy",
    "disable": "route",
    "enable": "route",
}
#: The kind of alerts about the controller's moves, which are events by themselves.
_MOVE: Final = "move"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """Something that happened, which may be why a line bends.

    Attributes:
        at: Seconds since the epoch.
        kind: ``fallback``, ``alert``, ``layout``, ``mode``, ``pin``, ``policy``, ``fast path``,
            ``configuration``, ``deploy`` or ``route``.
        why: Its reason, or the values that changed; "" for none.
    """

    at: float
    kind: str
    title: str
    why: str = ""
    is_bad: bool = False


def events_view(readers: Readers, viewer: Viewer, start: float, end: float) -> Sequence[EventView]:
    """Alerts and changes between two moments that a viewer may see; blocks."""
    read, names = readers.audit.changes_between, readers.team_names()
    changes = [
        *read(start, end, _CHANGES.keys() - {DEPLOY_ACTION}, MAX_EVENTS),
        *read(start - MAX_EARLY_DEPLOY_S, end + MAX_LATE_DEPLOY_S, [DEPLOY_ACTION], _MAX_DEPLOYS),
    ]
    events = [
        _change_event(change, names, viewer)
        for change in changes
        if start <= _time_of(change) < end and _may_see(viewer, change)
    ]
    if viewer.teams is None:
        alerts = readers.alerts.begun_between(start, end, MAX_EVENTS)
        events += [_alert_event(change) for change in alerts if change.kind != _MOVE]
    return events


def _may_see(viewer: Viewer, entry: AuditEntryView) -> bool:
    """True for changes of own teams, and of no team; policies of no team may name others."""
    if viewer.teams is None or entry.team is None:
        return viewer.teams is None or _CHANGES[entry.action] != _POLICY
    return entry.team in viewer.teams


def _time_of(entry: AuditEntryView) -> float:
    """The time of a change; of a deploy the one that was named, where it was."""
    is_deploy = entry.action == DEPLOY_ACTION
    return (entry.after or {}).get("at", entry.at) if is_deploy else entry.at


def _change_event(entry: AuditEntryView, names: Mapping[str, str], viewer: Viewer) -> EventView:
    """A change, without who made it: that stands in the audit log.

    Values of changes of no team may name others, so only who sees all teams has them.
    """
    sees_values = viewer.teams is None or entry.team is not None
    team = "" if entry.team is None else f"{names.get(entry.team, entry.team)}, "
    before, after = entry.before or {}, entry.after or {}
    differing = [
        f"{name}: {_text(before.get(name))} → {_text(value)}"
        for name, value in after.items()
        if before.get(name) != value
    ]
    return EventView(
        at=_time_of(entry),
        kind=_CHANGES[entry.action],
        title=f"{entry.action}: {team}{entry.subject}",
        why=", ".join(differing) if entry.before is not None and sees_values else "",
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
