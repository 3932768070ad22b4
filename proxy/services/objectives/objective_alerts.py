"""Alerts about objectives: reroutes, burning error budgets, missed floors; pure."""

from collections.abc import Container, Iterable, Mapping
from typing import Literal

import msgspec

from proxy.records.amounts import quantity
from proxy.services.objectives.judge import Judge
from proxy.services.objectives.objective_state import TrackedObjective
from slo import burn
from slo.alert import Alert, Severity, format_rough_duration, resolve_alert, stable_id
from slo.controller.state import ControllerState
from slo.controller.transitions import StateChange
from slo.objective import BurnAlert, Enforce, Metric

_PERCENT = 100


class _Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with an objective now."""

    kind: Literal["burn", "floor"]
    severity: Severity
    title: str
    facts: tuple[tuple[str, str], ...]
    mend: str = ""


class ObjectiveAlerts:
    """Tracks open alerts of objectives, so that each is sent when it begins and when it ends."""

    def __init__(self) -> None:
        self._open: dict[str, Alert] = {}
        self._before: dict[str, int] = {}
        self._resumed = float("-inf")

    @property
    def open_ids(self) -> list[str]:
        """The ids of what this process told of, or goes on with, that has not ended."""
        return [alert.id for alert in self._open.values()]

    def resume(
        self,
        tracks: Iterable[TrackedObjective],
        told: Iterable[Alert],
        ended: Container[str],
        now: float,
    ) -> list[Alert]:
        """Go on from what was told and has not ended, by any process or before a restart.

        What this process said itself holds until it is known to have ended: it may not be written
        down yet. Of what several processes told, each by itself, the oldest goes on.

        Args:
            tracks: The objectives.
            told: Alerts that are open, of any kind.
            ended: The ids of those in ``open`` that ended.
            now: The time. What burnt before does not end until there is evidence that it has.

        Returns:
            The ends of the others.
        """
        mine: dict[str, list[Alert]] = {}
        for alert in told:
            mine.setdefault(alert.subject, []).append(alert)
        said, self._open = self._open, {}
        over: list[Alert] = []
        names = {key: track.name for track in tracks for key in _known_by(track)}
        for key, name in names.items():
            found = {each.id: each for each in mine.get(name, ()) if _is_of(each, key)}
            if key in said and said[key].id not in ended:
                found.setdefault(said[key].id, said[key])
            ordered = sorted(found.values(), key=lambda each: each.began)
            if ordered:
                self._open[key] = ordered[0]
            over += [
                resolve_alert(each, now, "It goes on as another alert.") for each in ordered[1:]
            ]
        self._before = {key: value for key, value in self._before.items() if key in said}
        self._resumed = now
        return over

    def alerts_of_move(self, track: TrackedObjective, move: StateChange, calls: int) -> list[Alert]:
        """Alerts of a move: that it began, that it went on, or that all is as before.

        Args:
            track: The objective.
            move: What it did.
            calls: How many calls it moved since the process began.
        """
        key = _move(track)
        told = self._open.get(key)
        if track.objective.enforce is Enforce.OBSERVE:
            return []
        if move.after is ControllerState.HEALTHY:
            moved = calls - self._before.pop(key, calls)
            done = f"{quantity(moved, 'call')} fell back here; new ones use the model they ask for."
            return [] if told is None else [resolve_alert(self._open.pop(key), move.at, done)]
        is_pin = ControllerState.PINNED in (move.before, move.after)
        if told is not None and move.level == move.level_before and not is_pin:
            return []  # where calls go is what was told
        self._before.setdefault(key, calls)
        alert = _move_alert(track, move, stable_id(key, f"{move.at:.0f}"))
        if told is not None and (told.title, told.facts) == (alert.title, alert.facts):
            return []  # whoever led before told of this very pin
        self._open[key] = alert
        on = f"It went on: {move.after.value}, fallback level {move.level}."
        return [alert] if told is None else [resolve_alert(told, move.at, on), alert]

    def alerts_of_withdrawal(self, tracks: Iterable[TrackedObjective], now: float) -> list[Alert]:
        """Ends the open alerts of objectives that were removed."""
        keys = [key for track in tracks for key in (_move(track), *_finding_keys(track))]
        done = "Its objective was taken back."
        return [resolve_alert(self._open.pop(key), now, done) for key in keys if key in self._open]

    def alerts_of_judgement(
        self, tracks: Iterable[TrackedObjective], judge: Judge, costs: Mapping[str, int], now: float
    ) -> list[Alert]:
        """Alerts of budgets that began or ceased to burn, and of floors.

        Args:
            tracks: The objectives.
            judge: Knows how their calls went.
            costs: What calls that missed each have cost, in nano-dollars, since the process began.
            now: The time.
        """
        told: list[Alert] = []
        for track in tracks:
            if track.objective.enforce is Enforce.OBSERVE:
                continue
            standing, move = judge.standings.get(track.name), _move(track)
            if (
                move in self._open
                and standing is not None
                and standing.state is ControllerState.HEALTHY
            ):
                told.append(
                    resolve_alert(
                        self._open.pop(move), now, "New calls use the model they ask for."
                    )
                )
            for key, each in _finding_keys(track).items():
                if each is None:
                    finding = _floor(track, judge, now, is_open=key in self._open)
                else:
                    finding = _burn(track, each, judge, now)
                if finding is None and now - self._resumed < _evidence_s(each):
                    continue  # nothing is known yet of the time before
                told += self._alerts_of_finding(track, key, finding, costs.get(track.name, 0), now)
        return told

    def _alerts_of_finding(
        self, track: TrackedObjective, key: str, finding: _Finding | None, cost: int, now: float
    ) -> list[Alert]:
        """Alerts of one finding that begins or ends now."""
        if (key in self._open) == (finding is not None):
            return []
        if finding is None:
            spent = max(cost - self._before.pop(key, 0), 0)
            return [resolve_alert(self._open.pop(key), now, cost_nanos=spent)]
        alert = Alert(
            id=stable_id(key, f"{now:.0f}"),
            kind=finding.kind,
            subject=track.name,
            severity=finding.severity,
            title=finding.title,
            facts=finding.facts,
            action="Its ladder moves calls." if track.acts else "Nothing: it only alerts.",
            mend=finding.mend,
            began=now,
        )
        self._open[key] = alert
        self._before[key] = cost
        return [alert]


def _move(track: TrackedObjective) -> str:
    """The key of its reroute alert."""
    return f"move/{track.name}"


def _finding_keys(track: TrackedObjective) -> dict[str, BurnAlert | None]:
    """Keys of an objective's other alerts, with the burn rate of each; None for its floor."""
    found: dict[str, BurnAlert | None] = {
        f"burn/{track.name}/{each.burn:g}/{each.over:g}": each
        for each in burn.burn_alerts(track.objective)
    }
    return found | ({f"floor/{track.name}": None} if _has_floor(track) else {})


def _known_by(track: TrackedObjective) -> tuple[str, ...]:
    """Keys of all alerts of an objective."""
    return (_move(track), *_finding_keys(track))


def _is_of(alert: Alert, key: str) -> bool:
    """True if the alert tells of what is known by this."""
    return alert.id == stable_id(key, f"{alert.began:.0f}")


def _has_floor(track: TrackedObjective) -> bool:
    return track.objective.metric is Metric.CACHE


def _evidence_s(each: BurnAlert | None) -> float:
    """Seconds that have to be known for it to be over."""
    return burn.FLOOR_CLEARED_WINDOW_S if each is None else burn.short_window_s(each)


def _burn(track: TrackedObjective, each: BurnAlert, judge: Judge, now: float) -> _Finding | None:
    objective, known = track.objective, judge.known_seconds(now)
    if known < burn.short_window_s(each):
        return None
    window = format_rough_duration(min(each.over, known))
    over = judge.counts(track, now, each.over)
    lately = judge.counts(track, now, burn.short_window_s(each))
    if not burn.is_burning(each, objective, over, lately):
        return None
    return _Finding(
        kind="burn",
        severity=each.severity,
        title=f"{track.name} burns its error budget {each.burn:g} times too fast over {window}",
        facts=(
            ("burn", f"{burn.burn_rate(over, objective):.1f} over {window}"),
            ("missed", f"{over.bad} of {over.n}"),
            ("allowed", f"{(1 - objective.target) * _PERCENT:.3g} %"),
        ),
    )


def _floor(track: TrackedObjective, judge: Judge, now: float, *, is_open: bool) -> _Finding | None:
    objective = track.objective
    hour = judge.counts(track, now, burn.FLOOR_MISSED_WINDOW_S)
    is_cleared = burn.is_cleared(objective, judge.counts(track, now, burn.FLOOR_CLEARED_WINDOW_S))
    # What was over well within the hour does not begin again for the rest of it.
    is_wrong = not is_cleared and (is_open or burn.is_missed(objective, hour))
    if not is_wrong:
        return None
    return _Finding(
        kind="floor",
        severity=Severity.TICKET,
        title=f"{track.name} reads less from caches than its floor",
        facts=(
            ("read", f"{(1 - hour.share) * _PERCENT:.1f} % of {hour.n} eligible tokens an hour"),
            ("floor", f"{objective.target * _PERCENT:.3g} %"),
        ),
        mend="`thriftgate misses` says why.",
    )


def _move_alert(track: TrackedObjective, move: StateChange, name: str) -> Alert:
    """The alert of a move, with this id."""
    return Alert(
        id=name,
        kind="move",
        subject=track.name,
        severity=Severity.TICKET if track.acts else Severity.NOTE,
        title=_move_title(track, move),
        facts=(("state", move.after.value), ("why", move.reason)),
        action=_move_action(track, move),
        mend=_how_to_undo(track, move),
        began=move.at,
    )


def _move_title(track: TrackedObjective, move: StateChange) -> str:
    if not move.level:
        return f"{track.name} is {move.after.value}"
    entry = track.ladder_entry(move.level)
    return f"{track.name} is {move.after.value}, on fallback level {move.level}: {entry}"


def _how_to_undo(track: TrackedObjective, move: StateChange) -> str:
    if move.after is ControllerState.PINNED:
        return f"`thriftgate objectives release {track.name}` lets it go by what is measured."
    return f"`thriftgate objectives pin {track.name} 0 --for 1h` sends calls as they ask."


def _move_action(track: TrackedObjective, move: StateChange) -> str:
    if not track.acts:
        return "Nothing: it is not enforced. This is what would have been done."
    if not move.level:
        return "New conversations use the model they ask for."
    return f"New conversations go to {track.ladder_entry(move.level)}, but for those that try."
