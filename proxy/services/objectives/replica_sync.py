"""Syncs objectives between replicas: every second, shares counts and adopts states.

::

    router.tally ──▶ counters (Redis, or this process) ──▶ judge, in the replica that leads
                                                                │ states, under its epoch
    router.snapshots ◀─────────── all replicas ◀────────────────┘

Without its counters a replica keeps the last states for five minutes, frozen except for pins, and
judges by its own counts after that: objectives fail open, unlike budgets.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from proxy.catalog.catalog import Catalog
from proxy.services.objectives.judge import ActivePin, Judge
from proxy.services.objectives.missed_objectives import current_miss
from proxy.services.objectives.objective_alerts import ObjectiveAlerts
from proxy.services.objectives.objective_state import Miss, PublishedState, TrackedObjective
from proxy.services.objectives.outage import CountersOutage
from proxy.services.objectives.router import ObjectiveRouter
from proxy.store.errors import StoreError
from proxy.store.ports import ObjectiveCounters
from proxy.store.redis.objective_state import MAX_CELLS, MAX_KEYS
from proxy.store.redis.objective_state import MAX_INCREMENT as MOST_COUNTED
from proxy.store.sql.outbox import MAX_ALERTS
from proxy.store.store import Store
from slo.alert import Alert
from slo.budgets.tally import slot_of
from slo.controller.pins import thaw_state
from slo.controller.state import ControllerSnapshot
from slo.controller.transitions import StateChange, state_change

_log = logging.getLogger("thriftgate.objectives")

#: Seconds between two rounds, and of a leader's lease.
_SYNC_INTERVAL_S: Final = 1.0
_LEADER_LEASE_S: Final = 5.0
#: Seconds between two checks for burn alerts, and for pins.
_ALERTS_INTERVAL_S: Final = 10.0
_PINS_INTERVAL_S: Final = 3.0
#: Seconds for which the last states hold without counters.
_STATES_TTL_S: Final = 300.0
#: Reason for which objectives freeze meanwhile, and the reason in their states.
_LOST_REASON: Final = "its counters are away"
_FROZEN_REASON: Final = f"Frozen: {_LOST_REASON}"
#: Seconds after which states published before a restart are out of date.
_STALE_AFTER_S: Final = 600.0
#: Slots that a leader reads again, as they may have grown, and those it reads at first.
_REREAD_SLOTS: Final = 2
_FIRST_READ_SLOTS: Final = 60
#: Changes whose alerts wait until it is known which alerts are open.
_MAX_PENDING_MOVES: Final = 1_000
#: Seconds that the database has to answer.
_DATABASE_TIMEOUT_S: Final = 2.0


class ReplicaSync:
    """Keeps the objectives of one process in sync with all others.

    Args:
        replica: A name no other replica has.
    """

    def __init__(
        self,
        router: ObjectiveRouter,
        counters: ObjectiveCounters,
        *,
        opened: Store,
        now: Callable[[], float],
        send_alert: Callable[[Alert], bool],
        replica: str,
    ) -> None:
        self._router = router
        self._counters = counters
        self._opened = opened
        self._now = now
        self._send_alert = send_alert
        self._replica = replica
        self._judge = Judge(router.tracks.values())
        self._alerts = ObjectiveAlerts()
        self._read_so_far: dict[tuple[str, int], tuple[int, int]] = {}
        self._pins: dict[str, ActivePin] = {}
        self._pins_read_at = self._alerts_checked_at = self._burns_at = float("-inf")
        self._synced_at = now()
        self._is_lost = self._leads = self._is_resumed = False
        self._outage = CountersOutage(router.tracks.values(), send_alert)
        self._pending_moves: deque[tuple[TrackedObjective, StateChange, int]] = deque(
            maxlen=_MAX_PENDING_MOVES
        )

    @property
    def _tracks(self) -> Mapping[str, TrackedObjective]:
        """The objectives, by name."""
        return self._router.tracks

    def update(self, tracks: dict[str, TrackedObjective], catalog: Catalog) -> None:
        """Apply these objectives from now on.

        Those that stay keep their states and counts. Alerts about those that are gone end.
        """
        now = self._now()
        gone = [track for name, track in self._tracks.items() if name not in tracks]
        for alert in self._alerts.alerts_of_withdrawal(gone, now):
            self._send_alert(alert)
        self._router.update(tracks, catalog)
        self._judge.update(tracks.values(), now)
        self._outage.update(tracks.values())
        snapshots = self._router.snapshots
        self._router.snapshots = {
            name: snapshot for name, snapshot in snapshots.items() if name in tracks
        }

    async def run(self) -> None:
        """Sync at regular intervals, without end."""
        while True:
            await self.sync_once()
            await asyncio.sleep(_SYNC_INTERVAL_S)

    async def sync_once(self) -> None:
        """Do one round; never raises because Redis or the database is unreachable."""
        now = self._now()
        await self._read_pins(now)
        fresh = _capped_counts(self._router.tally.drain())
        try:
            if fresh:
                await self._counters.add(fresh)
            epoch = await self._counters.lead(self._replica, _LEADER_LEASE_S)
            if epoch is None:
                self._leads = False
                self._adopt_published(await self._counters.snapshots(), now)
            else:
                await self._lead(epoch, now)
            self._synced_at = now
            self._record_recovery(now)
        except StoreError as error:
            await self._run_without_counters(fresh, now, error)
        self._router.forget(now)

    async def _lead(self, epoch: int, now: float) -> None:
        """Judge for all replicas, and publish the states."""
        last = slot_of(now)
        if self._leads:
            await self._read_counts(last, _REREAD_SLOTS)
        else:
            _, published = await self._counters.snapshots()
            snapshots = {
                name: state.snapshot
                for name, state in self._decode_states(published)
                if now - state.at < _STALE_AFTER_S
            }
            # After an outage the counters may be empty: this process's own states are newer.
            self._judge.take_over_states(
                {**_thaw_states(self._router.snapshots, now), **snapshots}, now
            )
            self._judge.forget()
            self._read_so_far = {}
            await self._read_counts(last, _FIRST_READ_SLOTS)
            self._leads, self._is_resumed, self._alerts_checked_at = True, False, float("-inf")
        if not self._is_resumed and now - self._alerts_checked_at >= _ALERTS_INTERVAL_S:
            await self._resume(now)
        self._judge_objectives(now)
        self._measure_burns(now)
        burns, missed = self._router.burns, self._router.missed
        states = {
            name: msgspec.json.encode(
                PublishedState(
                    now, snapshot, self._late_stage(name), burns.get(name, ()), missed.get(name)
                )
            )
            for name, snapshot in self._judge.snapshots.items()
        }
        if await self._counters.publish(epoch, states):
            self._router.snapshots = dict(self._judge.snapshots)
        else:
            self._leads = False

    async def _resume(self, now: float) -> None:
        """Continue with the alerts that the former leader left open.

        No alert is sent until the database says which those are: it would be sent twice.
        """
        outbox = self._opened.outbox
        try:
            async with asyncio.timeout(_DATABASE_TIMEOUT_S):
                open_alerts = await self._opened.ask(outbox.open_alerts, MAX_ALERTS)
                ended = await self._opened.ask(outbox.ended_ids, self._alerts.open_ids)
        except (StoreError, TimeoutError) as error:
            _log.warning("Open alerts could not be read: %s", error)
            self._alerts_checked_at = now
            return
        self._is_resumed = True
        self._outage.resume(open_alerts, now)
        for alert in self._alerts.resume(self._tracks.values(), open_alerts, ended, now):
            self._send_alert(alert)

    async def _read_counts(self, last: int, slots_before: int) -> None:
        """Give the judge new counts of the last slot and of ``slots_before`` slots before it."""
        arms = self._judge.arms
        counts: dict[tuple[str, int], tuple[int, int]] = {}
        step = min(MAX_KEYS, MAX_CELLS // (slots_before + 1))
        for start in range(0, len(arms), step):
            counts |= await self._counters.read(
                arms[start : start + step], last - slots_before, last
            )
        fresh = {}
        for cell, (good, bad) in counts.items():
            had = self._read_so_far.get(cell, (0, 0))
            if (good, bad) != had:
                fresh[cell] = (good - had[0], bad - had[1])
        self._judge.add_counts(fresh)
        recent = {
            cell: count
            for cell, count in self._read_so_far.items()
            if cell[1] >= last - _REREAD_SLOTS
        }
        self._read_so_far = recent | dict(counts)

    def _judge_objectives(self, now: float) -> None:
        for track, move in self._judge.judge(self._pins, now):
            _log.warning("%s is %s: %s", track.name, move.after.value, move.reason)
            calls = sum(n for (name, _), n in self._router.rerouted.items() if name == track.name)
            self._pending_moves.append((track, move, calls))
        if self._is_resumed:
            self._send_alerts(now)

    def _send_alerts(self, now: float) -> None:
        """Send alerts of changes, and at intervals of burning error budgets."""
        while self._pending_moves:
            for alert in self._alerts.alerts_of_move(*self._pending_moves.popleft()):
                self._send_alert(alert)
        if now - self._alerts_checked_at >= _ALERTS_INTERVAL_S:
            self._alerts_checked_at = now
            stages = {name: self._late_stage(name) for name in self._tracks}
            for alert in self._alerts.alerts_of_judgement(
                self._tracks.values(), self._judge, self._router.costs, now, stages
            ):
                self._send_alert(alert)

    def _measure_burns(self, now: float) -> None:
        """Measure the burn rates of error budgets, and what is missed, at intervals."""
        if now - self._burns_at >= _ALERTS_INTERVAL_S:
            self._burns_at = now
            tracks = self._tracks.values()
            self._router.burns = {
                track.name: self._judge.burn_windows(track, now) for track in tracks
            }
            before, judge = self._router.missed, self._judge
            misses = {
                track.name: current_miss(
                    track, judge, self._alerts.open_finding(track), before.get(track.name), now
                )
                for track in tracks
            }
            self._adopt_misses(misses)

    def _adopt_misses(self, misses: Mapping[str, Miss | None]) -> None:
        """Take over what is missed now; logs what begins and ends."""
        before = _proven_misses(self._router.missed)
        self._router.missed = {name: miss for name, miss in misses.items() if miss is not None}
        proven = _proven_misses(self._router.missed)
        for name, miss in proven.items():
            if name not in before:
                _log.warning("%s is missed: %s", name, miss.reason)
        for name in before.keys() - proven.keys():
            _log.warning("%s is no longer missed", name)

    def _late_stage(self, objective: str) -> str:
        """The stage that most late calls of an objective broke, in words; "" for none."""
        miss = self._router.misses.most_broken(objective)
        return "" if miss is None else miss.text()

    def _adopt_published(self, published: tuple[int, Mapping[str, bytes]], now: float) -> None:
        """Take over the states that the leader published; an objective without one is healthy."""
        decoded = [
            (name, state)
            for name, state in self._decode_states(published[1])
            if now - state.at < _STALE_AFTER_S
        ]
        states = {name: state.snapshot for name, state in decoded}
        self._router.burns = {name: state.burns for name, state in decoded}
        self._adopt_misses({name: state.miss for name, state in decoded})
        for name, snapshot in states.items():
            before = self._router.snapshots.get(name) or ControllerSnapshot(since=now)
            if state_change(before, snapshot) is not None:
                _log.warning("%s is %s: %s", name, snapshot.state.value, snapshot.reason)
        self._router.snapshots = states

    def _decode_states(self, published: Mapping[str, bytes]) -> list[tuple[str, PublishedState]]:
        """Decode published states; skips those of other versions that cannot be read."""
        states = []
        for name in published.keys() & self._tracks.keys():
            try:
                states.append((name, msgspec.json.decode(published[name], type=PublishedState)))
            except msgspec.DecodeError:
                _log.warning("The published state of %s cannot be read; it is judged anew", name)
        return states

    async def _run_without_counters(
        self, fresh: Mapping[tuple[str, int], tuple[int, int]], now: float, error: StoreError
    ) -> None:
        """Keep the last states for a while; after that, judge by this process's own counts."""
        if not self._is_lost:
            _log.warning("Objectives keep their fallback levels for now: %s", error)
            self._judge.take_over_states(self._router.snapshots, now)
        self._is_lost, self._leads = True, False
        self._outage.record_loss(now)
        self._judge.add_counts(fresh)
        if now - self._synced_at < _STATES_TTL_S:
            for track, move in self._judge.freeze(self._pins, now, _LOST_REASON):
                _log.warning("%s is %s: %s", track.name, move.after.value, move.reason)
        else:
            if not self._is_resumed and now - self._alerts_checked_at >= _ALERTS_INTERVAL_S:
                await self._resume(now)
            self._thaw(now)
            self._judge_objectives(now)
            self._measure_burns(now)
        self._router.snapshots = dict(self._judge.snapshots)

    def _thaw(self, now: float) -> None:
        """Thaw what froze without counters, to be judged by this process's own counts."""
        if any(snapshot.reason == _FROZEN_REASON for snapshot in self._judge.snapshots.values()):
            _log.warning("Objectives are judged by this process's own counts: %s", _LOST_REASON)
            self._judge.take_over_states(_thaw_states(self._judge.snapshots, now), now)

    def _record_recovery(self, now: float) -> None:
        """Record that the counters answer."""
        if self._is_lost:
            self._is_lost = False
            _log.warning("Objectives are judged again by what all processes count")
        self._outage.record_recovery(now)

    async def _read_pins(self, now: float) -> None:
        if now - self._pins_read_at < _PINS_INTERVAL_S:
            return
        self._pins_read_at = now
        try:
            async with asyncio.timeout(_DATABASE_TIMEOUT_S):
                pins = await self._opened.ask(self._opened.pins.current_pins, now)
        except (StoreError, TimeoutError):
            return  # the known pins hold
        self._pins = {
            name: ActivePin(level=pin.level, made=pin.made, until=pin.until, why=pin.why)
            for name, pin in pins.items()
        }


def _thaw_states(
    snapshots: Mapping[str, ControllerSnapshot], now: float
) -> dict[str, ControllerSnapshot]:
    """The states, those that froze without counters thawed."""
    return {
        name: thaw_state(snapshot, now) if snapshot.reason == _FROZEN_REASON else snapshot
        for name, snapshot in snapshots.items()
    }


def _capped_counts(
    fresh: Mapping[tuple[str, int], tuple[int, int]],
) -> dict[tuple[str, int], tuple[int, int]]:
    """The counts, those above the maximum of one increment reduced in proportion."""
    capped = {}
    for cell, (good, bad) in fresh.items():
        over = max(-(-max(good, bad) // MOST_COUNTED), 1)
        capped[cell] = (good // over, bad // over)
    return capped


def _proven_misses(misses: Mapping[str, Miss]) -> dict[str, Miss]:
    """Those that are not of too few calls to judge."""
    return {name: miss for name, miss in misses.items() if miss.is_proven}
