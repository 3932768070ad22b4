"""Alerts about objectives: reroutes, burning error budgets, missed floors; pure."""

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from proxy.records.amounts import quantity
from proxy.services.objectives.judge import Judge
from proxy.services.objectives.missed_objectives import is_burning, is_floor_missed
from proxy.services.objectives.objective_state import TrackedObjective
from slo.alert import (
    Alert,
    Severity,
    format_rough_duration,
    resolve_alert,
    stable_id,
)
from slo.controller.state import ControllerState
from slo.controller.transitions import StateChange
from slo.objectives import burn
from slo.objectives.objective import BurnAlert, Enforce, Metric
from slo.objectives.verdict import fact_text

_PERCENT = 100


class _Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with an objective now."""

    kind: Literal["burn", "floor"]
    severity: Severity
    title: str
    facts: tuple[tuple[str, str], ...]
    since: float
    fix: str = ""


class ObjectiveAlerts:
    """Tracks open alerts of objectives, so that each is sent when it begins and when it ends."""

    def __init__(self) -> None:
        self._open: dict[str, Alert] = {}
        self._counts_at_start: dict[str, int] = {}
        self._resumed_at = float("-inf")

    @property
    def open_ids(self) -> list[str]:
        """The ids of open alerts that this process sent or took over."""
        return [alert.id for alert in self._open.values()]

    def open_finding(self, track: TrackedObjective) -> Alert | None:
        """The oldest open alert about its error budget or floor; None for none."""
        alerts = [self._open[key] for key in _finding_keys(track) if key in self._open]
        return min(alerts, key=lambda alert: alert.began, default=None)

    def resume(
        self,
        tracks: Iterable[TrackedObjective],
        open_alerts: Iterable[Alert],
        ended: Container[str],
        now: float,
    ) -> list[Alert]:
        """Continue with the alerts that any process left open, also before a restart.

        Alerts of this process stay open until they are known to have ended: they may not be
        stored yet. Where several processes sent one each, the oldest continues.

        Args:
            ended: The ids of this process's own alerts that ended.
            now: The time. A burn from before ends only once there is evidence that it has.

        Returns:
            The ends of the duplicates.
        """
        mine: dict[str, list[Alert]] = {}
        for alert in open_alerts:
            mine.setdefault(alert.subject, []).append(alert)
        own, self._open = self._open, {}
        over: list[Alert] = []
        names = {
            key: track.name
            for track in tracks
            for key in (*_move_keys(track), *_finding_keys(track))
        }
        for key, name in names.items():
            alerts_by_id = {
                alert.id: alert
                for alert in mine.get(name, ())
                if alert.id == stable_id(key, f"{alert.began:.0f}")
            }
            if key in own and own[key].id not in ended:
                alerts_by_id.setdefault(own[key].id, own[key])
            ordered = sorted(alerts_by_id.values(), key=lambda alert: alert.began)
            if ordered:
                self._open[key] = ordered[0]
            over += [
                resolve_alert(alert, now, "It continues as another alert.") for alert in ordered[1:]
            ]
        self._counts_at_start = {
            key: value for key, value in self._counts_at_start.items() if key in own
        }
        self._resumed_at = now
        return over

    def alerts_of_move(self, track: TrackedObjective, move: StateChange, calls: int) -> list[Alert]:
        """Alerts of a change of level: that it began, that it changed, or that it ended.

        A pin has an alert of its own: the one about what was wrong before goes on beside it.

        Args:
            calls: Calls that fell back for this objective since the process began.
        """
        if track.objective.enforce is Enforce.OBSERVE:
            return []
        move_key, pin_key = _move_keys(track)
        if move.after is ControllerState.HEALTHY:
            return [
                *self._end_of_move(pin_key, move, calls),
                *self._end_of_move(move_key, move, calls),
            ]
        if move.after is ControllerState.PINNED:
            return self._alerts_of_level(pin_key, track, move, calls)
        ended = self._end_of_move(pin_key, move, calls)
        open_alert = self._open.get(move_key)
        was_pinned = move.before is ControllerState.PINNED
        if open_alert is not None and (
            open_alert.title == _move_title(track, move)
            if was_pinned
            else move.level == move.level_before
        ):
            return ended  # the open alert says where calls go
        return [*ended, *self._alerts_of_level(move_key, track, move, calls)]

    def _end_of_move(self, key: str, move: StateChange, calls: int) -> list[Alert]:
        """The end of a reroute or of a pin; nothing where none is open."""
        fell_back = calls - self._counts_at_start.pop(key, calls)
        if key not in self._open:
            return []
        goes_on = "" if move.after is ControllerState.HEALTHY else "the objective decides again."
        done = goes_on or "new ones use the model they ask for."
        text = f"{quantity(fell_back, 'call')} fell back here; {done}"
        return [resolve_alert(self._open.pop(key), move.at, text)]

    def _alerts_of_level(
        self, key: str, track: TrackedObjective, move: StateChange, calls: int
    ) -> list[Alert]:
        """The alert of a new level, and the end of the one about the level before."""
        open_alert = self._open.get(key)
        self._counts_at_start.setdefault(key, calls)
        alert = _move_alert(track, move, stable_id(key, f"{move.at:.0f}"))
        if open_alert is not None and (open_alert.title, open_alert.facts) == (
            alert.title,
            alert.facts,
        ):
            return []  # the former leader sent the alert of this pin
        self._open[key] = alert
        on = f"It continued: {move.after.value}, fallback level {move.level}."
        return [alert] if open_alert is None else [resolve_alert(open_alert, move.at, on), alert]

    def alerts_of_withdrawal(self, tracks: Iterable[TrackedObjective], now: float) -> list[Alert]:
        """Ends the open alerts of objectives that were removed."""
        keys = [key for track in tracks for key in (*_move_keys(track), *_finding_keys(track))]
        done = "Its objective was removed."
        return [resolve_alert(self._open.pop(key), now, done) for key in keys if key in self._open]

    def alerts_of_judgement(
        self,
        tracks: Iterable[TrackedObjective],
        judge: Judge,
        costs: Mapping[str, int],
        now: float,
        stages: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Alert]:
        """Alerts of error budgets and floors that begin or end now.

        Args:
            costs: Nano-dollars of the calls that missed each since the process began.
            stages: By objective, the stage that most late calls broke, in words.
        """
        alerts: list[Alert] = []
        for track in tracks:
            if track.objective.enforce is Enforce.OBSERVE:
                continue
            snapshot = judge.snapshots.get(track.name)
            is_healthy = snapshot is not None and snapshot.state is ControllerState.HEALTHY
            alerts += [
                resolve_alert(self._open.pop(key), now, "New calls use the model they ask for.")
                for key in _move_keys(track)
                if is_healthy and key in self._open
            ]
            for key, burn_alert in _finding_keys(track).items():
                if burn_alert is None:
                    finding = _floor_finding(track, judge, now, is_open=key in self._open)
                else:
                    finding = _burn_finding(track, burn_alert, judge, now)
                if finding is not None and (stage := stages.get(track.name)):
                    finding = msgspec.structs.replace(
                        finding, facts=(*finding.facts, ("stage", stage))
                    )
                if finding is None and now - self._resumed_at < _evidence_s(burn_alert):
                    continue  # nothing is known yet of the time before
                alerts += self._alerts_of_finding(
                    track, key, finding, costs.get(track.name, 0), now
                )
        return alerts

    def _alerts_of_finding(
        self, track: TrackedObjective, key: str, finding: _Finding | None, cost: int, now: float
    ) -> list[Alert]:
        """Alerts of one finding that begins or ends now."""
        if (key in self._open) == (finding is not None):
            return []
        if finding is None:
            spent = max(cost - self._counts_at_start.pop(key, 0), 0)
            return [resolve_alert(self._open.pop(key), now, cost_nanos=spent)]
        alert = Alert(
            id=stable_id(key, f"{now:.0f}"),
            kind=finding.kind,
            subject=track.name,
            severity=finding.severity,
            title=finding.title,
            facts=finding.facts,
            action="Calls fall back along its ladder."
            if track.acts
            else "Nothing: it only alerts.",
            fix=finding.fix,
            since=finding.since,
            began=now,
        )
        self._open[key] = alert
        self._counts_at_start[key] = cost
        return [alert]


def _move_keys(track: TrackedObjective) -> tuple[str, str]:
    """The keys of its reroute alert, and of the alert of its pin."""
    return f"move/{track.name}", f"pin/{track.name}"


def _finding_keys(track: TrackedObjective) -> dict[str, BurnAlert | None]:
    """Keys of an objective's other alerts, with the burn rate of each; None for its floor."""
    keys: dict[str, BurnAlert | None] = {
        f"burn/{track.name}/{burn_alert.burn:g}/{burn_alert.over:g}": burn_alert
        for burn_alert in burn.burn_alerts(track.objective)
    }
    has_floor = track.objective.metric is Metric.CACHE
    return keys | ({f"floor/{track.name}": None} if has_floor else {})


def _evidence_s(burn_alert: BurnAlert | None) -> float:
    """Seconds of counts that are needed before it can end."""
    return burn.FLOOR_CLEARED_WINDOW_S if burn_alert is None else burn.short_window_s(burn_alert)


def _burn_finding(
    track: TrackedObjective, alert: BurnAlert, judge: Judge, now: float
) -> _Finding | None:
    if not is_burning(track, alert, judge, now):
        return None
    objective, over = track.objective, judge.counts(track, now, alert.over)
    window = format_rough_duration(min(alert.over, judge.known_seconds(now)))
    return _Finding(
        kind="burn",
        severity=alert.severity,
        title=f"{track.name}: {fact_text(objective, over, window)}",
        facts=(
            ("burn", f"{burn.burn_rate(over, objective):.1f} over {window}"),
            ("alerts from", f"{alert.burn:g}"),
            ("missed", f"{over.bad} of {over.n}"),
            ("allowed", f"{(1 - objective.target) * _PERCENT:.3g} %"),
        ),
        since=judge.window_start(now, alert.over),
    )


def _floor_finding(
    track: TrackedObjective, judge: Judge, now: float, *, is_open: bool
) -> _Finding | None:
    if not is_floor_missed(track, judge, now, was_missed=is_open):
        return None
    objective, hour = track.objective, judge.counts(track, now, burn.FLOOR_MISSED_WINDOW_S)
    return _Finding(
        kind="floor",
        severity=Severity.TICKET,
        title=f"{track.name}: {fact_text(objective, hour, '1 h')},"
        f" below the floor of {objective.target * _PERCENT:.3g} %",
        facts=(
            ("read", f"{(1 - hour.share) * _PERCENT:.1f} % of {hour.n} eligible tokens an hour"),
            ("floor", f"{objective.target * _PERCENT:.3g} %"),
        ),
        since=judge.window_start(now, burn.FLOOR_MISSED_WINDOW_S),
        fix="See which calls missed the cache, and why.",
    )


def _move_alert(track: TrackedObjective, move: StateChange, name: str) -> Alert:
    """The alert of a move, with this id."""
    level = (("level", track.ladder_entry(move.level)),) if move.level else ()
    return Alert(
        id=name,
        kind="move",
        subject=track.name,
        severity=_move_severity(track, move),
        title=_move_title(track, move),
        facts=(("state", move.after.value), *level, ("why", move.reason)),
        action=_move_action(track, move),
        fix=_how_to_undo(move),
        began=move.at,
    )


def _move_severity(track: TrackedObjective, move: StateChange) -> Severity:
    """The urgency of a move; a person's pin needs no other person."""
    is_note = move.after is ControllerState.PINNED or not track.acts
    return Severity.NOTE if is_note else Severity.TICKET


def _move_title(track: TrackedObjective, move: StateChange) -> str:
    """The place where new conversations go, and the state that sends them there."""
    if not move.level:
        return f"{track.name} is {move.after.value}: calls get the model they ask for"
    go = "go" if track.acts else "would go"
    entry = f"{track.ladder_entry(move.level)}, fallback level {move.level}"
    if move.after is ControllerState.PINNED:
        return f"{track.name} is pinned to {entry}"
    return f"{track.name} is {move.after.value}: new conversations {go} to {entry}"


def _how_to_undo(move: StateChange) -> str:
    if move.after is ControllerState.PINNED:
        return "Release the pin to let measurements decide again."
    return "Nothing has to be done. A pin to level 0 uses the model that calls ask for."


def _move_action(track: TrackedObjective, move: StateChange) -> str:
    if not track.acts:
        return "Nothing: it is not enforced. With enforcement, calls would fall back."
    if not move.level:
        return "New conversations use the model they ask for."
    return f"New conversations go to {track.ladder_entry(move.level)}, except for canary calls."
