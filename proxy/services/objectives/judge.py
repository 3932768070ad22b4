"""Decides the state of each objective from what all replicas counted; pure.

One replica, the leader, judges at a time. It keeps counts in slots of ten seconds for two hours,
and in slots of ten minutes for three days, which is as far back as alerts look. A new leader
starts without counts.
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Final

import msgspec
from msgspec.structs import replace

from proxy.services.objectives.objective_state import BurnWindow, TrackedObjective
from slo.budgets.tally import SLOT_S, GoodBadCounts, Tally
from slo.controller.evaluate import evaluate
from slo.controller.pins import apply_pin, freeze_state, remove_pin, thaw_state
from slo.controller.state import ControllerSnapshot, ControllerState, level_counts
from slo.controller.transitions import StateChange, state_change
from slo.objectives.burn import burn_alerts, burn_rate

#: Slots of the short memory in one slot of the long memory.
_COARSE_FACTOR: Final = 60
_SHORT_MEMORY_S: Final = 7200.0
_LONG_MEMORY_S: Final = 3 * 86_400.0
#: Seconds without a call after which a level that is not the first is no longer judged.
_SILENT_AFTER_S: Final = 900.0
#: Seconds by which the clock may go on between two rounds before it is taken to have jumped.
_CLOCK_JUMP_S: Final = 60.0
#: Seconds between the beginnings of two states, so that their alerts have different ids.
_MIN_STATE_GAP_S: Final = 1.0


class ActivePin(msgspec.Struct, frozen=True, kw_only=True):
    """A level that a person pinned an objective to.

    Attributes:
        made: Time at which it was set, in seconds since the epoch.
        until: End of the pin.
    """

    level: int
    made: float
    until: float
    why: str


class Judge:
    """The states of objectives, by the counts of all replicas.

    Attributes:
        snapshots: By name; absent is healthy.
    """

    def __init__(self, tracks: Iterable[TrackedObjective]) -> None:
        self.snapshots: dict[str, ControllerSnapshot] = {}
        self._tracks = tuple(tracks)
        self._short = Tally(_SHORT_MEMORY_S)
        self._long = Tally(_LONG_MEMORY_S / _COARSE_FACTOR)
        self._last_judged_at: float | None = None
        self._counted_since: float | None = None

    def update(self, tracks: Iterable[TrackedObjective], now: float) -> None:
        """Judge these objectives from now on; those that stay keep their states."""
        self._tracks = tuple(tracks)
        self.take_over_states(self.snapshots, now)

    @property
    def arms(self) -> list[str]:
        """Names of all arms under which calls are counted."""
        return [arm for track in self._tracks for arm in track.arms]

    def known_seconds(self, now: float) -> float:
        """Seconds since the first count; nothing is known of the time before."""
        return 0.0 if self._counted_since is None else max(now - self._counted_since, 0.0)

    def take_over_states(self, snapshots: Mapping[str, ControllerSnapshot], now: float) -> None:
        """Continue from the states that another judge published; ladders may be shorter now."""
        self._last_judged_at = None
        self.snapshots = {
            track.name: _clamp_to_ladder(snapshots[track.name], track.rules.fallback_levels, now)
            for track in self._tracks
            if track.name in snapshots
        }

    def forget(self) -> None:
        """Forget recent counts, which will be added again."""
        self._short = Tally(_SHORT_MEMORY_S)

    def add_counts(self, increments: Mapping[tuple[str, int], tuple[int, int]]) -> None:
        """Add new counts: (arm, slot) to (good, bad)."""
        self._short.merge(increments)
        first = min((slot * SLOT_S for _, slot in increments), default=self._counted_since)
        if first is not None:
            self._counted_since = (
                first if self._counted_since is None else min(self._counted_since, first)
            )
        coarse: dict[tuple[str, int], tuple[int, int]] = {}
        for (key, slot), (good, bad) in increments.items():
            had = coarse.get((key, slot // _COARSE_FACTOR), (0, 0))
            coarse[key, slot // _COARSE_FACTOR] = (had[0] + good, had[1] + bad)
        self._long.merge(coarse)

    def counts(self, track: TrackedObjective, now: float, seconds: float) -> GoodBadCounts:
        """Good and bad calls of an objective, whatever answered them.

        Args:
            seconds: Age of the oldest calls counted, at most three days; rounded up to slots.
        """
        memory, scale = (
            (self._short, 1) if seconds <= _SHORT_MEMORY_S else (self._long, _COARSE_FACTOR)
        )
        counts = [memory.counts(arm, now / scale, seconds / scale) for arm in track.arms]
        return GoodBadCounts(
            sum(count.good for count in counts), sum(count.bad for count in counts)
        )

    def window_start(self, now: float, seconds: float) -> float:
        """Beginning of the slots that ``counts`` counts, in seconds since the epoch."""
        slot_s = SLOT_S if seconds <= _SHORT_MEMORY_S else SLOT_S * _COARSE_FACTOR
        return (now // slot_s - ceil(seconds / slot_s) + 1) * slot_s

    def burn_windows(self, track: TrackedObjective, now: float) -> tuple[BurnWindow, ...]:
        """Burn rates of an error budget over the window of each of its alerts."""
        known_s = self.known_seconds(now)
        windows = []
        for alert in burn_alerts(track.objective):
            counts = self.counts(track, now, alert.over)
            windows.append(
                BurnWindow(
                    over=alert.over,
                    limit=alert.burn,
                    rate=burn_rate(counts, track.objective),
                    counted=counts.n,
                    known=min(known_s, alert.over),
                    missed=counts.bad,
                )
            )
        return tuple(windows)

    def judge(
        self, pins: Mapping[str, ActivePin], now: float
    ) -> list[tuple[TrackedObjective, StateChange]]:
        """Judge every objective; returns the changes."""
        has_jumped = (
            self._last_judged_at is not None
            and not -_CLOCK_JUMP_S < now - self._last_judged_at < _CLOCK_JUMP_S
        )
        self._last_judged_at = now
        changes = []
        for track in self._tracks:
            before = self.snapshots.get(track.name) or ControllerSnapshot(since=now)
            current = self._apply_pin(track, pins.get(track.name), now)
            after = self._evaluate(track, current, now, has_jumped=has_jumped)
            self.snapshots[track.name] = after
            if (change := state_change(before, after)) is not None:
                changes.append((track, change))
        self._short.forget(now)
        self._long.forget(now / _COARSE_FACTOR)
        return changes

    def freeze(
        self, pins: Mapping[str, ActivePin], now: float, why: str
    ) -> list[tuple[TrackedObjective, StateChange]]:
        """Follow pins and freeze all other objectives; returns the changes."""
        changes = []
        for track in self._tracks:
            before = self.snapshots.get(track.name) or ControllerSnapshot(since=now)
            after = freeze_state(self._apply_pin(track, pins.get(track.name), now), now, why)
            self.snapshots[track.name] = after
            if (change := state_change(before, after)) is not None:
                changes.append((track, change))
        return changes

    def _apply_pin(
        self, track: TrackedObjective, pin: ActivePin | None, now: float
    ) -> ControllerSnapshot:
        """The state, pinned where a pin is in force, else without its pin.

        It is pinned since the pin was set, or since now if its last state began after that.
        """
        before = self.snapshots.get(track.name) or ControllerSnapshot(since=now)
        if pin is None or pin.until <= now:
            return remove_pin(before, now, track.rules)
        level = min(max(pin.level, 0), track.rules.fallback_levels)
        if (before.state, before.level, before.until) == (ControllerState.PINNED, level, pin.until):
            return before
        is_later = track.name in self.snapshots and pin.made <= before.since + _MIN_STATE_GAP_S
        since = now if is_later else min(pin.made, now)  # the pin's time may be another machine's
        return apply_pin(before, level, pin.until, since, pin.why)

    def _evaluate(
        self, track: TrackedObjective, current: ControllerSnapshot, now: float, *, has_jumped: bool
    ) -> ControllerSnapshot:
        if current.state is ControllerState.PINNED:
            return current
        snapshot = self._freeze_or_thaw(track, current, now, has_jumped=has_jumped)
        if snapshot is not None or not track.rules.fallback_levels:
            return snapshot or current
        arms = {
            level: level_counts(self._short, track.arm(level), now)
            for level in range(track.rules.fallback_levels + 1)
        }
        return evaluate(current, arms, track.rules, now)

    def _freeze_or_thaw(
        self, track: TrackedObjective, current: ControllerSnapshot, now: float, *, has_jumped: bool
    ) -> ControllerSnapshot | None:
        """The state, frozen or thawed, if there are no calls to judge by; else None.

        A healthy objective stays so without evidence.
        """
        if current.state is ControllerState.HEALTHY:
            return None
        if has_jumped:
            return replace(freeze_state(current, now, "the clock jumped"), since=now)
        is_silent = not self.counts(track, now, _SILENT_AFTER_S).n
        if current.state is ControllerState.FROZEN:
            return (
                current
                if is_silent or now - current.since < _CLOCK_JUMP_S
                else thaw_state(current, now)
            )
        if is_silent and now - max(current.since, current.step_since) > _SILENT_AFTER_S:
            return freeze_state(current, now, "no calls for 15 minutes")
        return current if is_silent else None


def _clamp_to_ladder(snapshot: ControllerSnapshot, levels: int, now: float) -> ControllerSnapshot:
    """The state, its level clamped to a ladder of this length; healthy if that is 0."""
    if snapshot.level <= levels:
        return snapshot
    return replace(snapshot, level=levels) if levels else ControllerSnapshot(since=now)
