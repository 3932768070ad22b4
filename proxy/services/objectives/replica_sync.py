"""Steering: every second, counts go to all replicas, and where objectives stand comes back.

::

    wheel.tally ──▶ counters (Redis, or this process) ──▶ judge, in the replica that leads
         ▲                                                      │ standings, under its epoch
    wheel.standings ◀──────────── all replicas ◀────────────────┘

Without its counters a replica keeps what it last heard for five minutes, frozen but for pins, and
judges by its own counts after that: objectives fail open, unlike budgets.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from proxy.catalog.catalog import Catalog
from proxy.services.objectives.judge import ActivePin, Judge
from proxy.services.objectives.objective_alerts import ObjectiveAlerts
from proxy.services.objectives.objective_state import PublishedState, TrackedObjective
from proxy.services.objectives.outage import CountersOutage
from proxy.services.objectives.router import ObjectiveRouter
from proxy.store.redis.local_budget_store import StoreUnavailable
from proxy.store.redis.local_objective_store import ObjectiveCounters
from proxy.store.redis.objective_state import MAX_CELLS, MAX_KEYS
from proxy.store.redis.objective_state import MAX_INCREMENT as MOST_COUNTED
from proxy.store.sql.outbox import MAX_ALERTS
from proxy.store.store import Store
from slo.alert import Alert
from slo.controller.pins import thaw_state
from slo.controller.state import ControllerSnapshot
from slo.controller.transitions import StateChange, state_change
from slo.tally import slot_of

_log = logging.getLogger("thriftgate.objectives")

#: Seconds between two rounds, and for which a leader leads without saying so again.
_SYNC_INTERVAL_S: Final = 1.0
_LEADER_LEASE_S: Final = 5.0
#: Seconds between two looks at what burns, and at what people pinned.
_ALERTS_INTERVAL_S: Final = 10.0
_PINS_INTERVAL_S: Final = 3.0
#: Seconds for which what was heard last holds without counters.
_STATES_TTL_S: Final = 300.0
#: Why what is not judged meanwhile is frozen, and what a standing says of that.
_AWAY: Final = "its counters are away"
_FROZEN: Final = f"Frozen: {_AWAY}"
#: Seconds after which what was published before a restart is old.
_STALE_AFTER_S: Final = 600.0
#: Slots that a leader reads again, for they may have grown, and those it reads to begin with.
_REREAD_SLOTS: Final = 2
_FIRST_READ_SLOTS: Final = 60
#: Moves that are told once it is known which alerts are open.
_MAX_PENDING_MOVES: Final = 1_000
#: Seconds that the database has to answer.
_DATABASE_TIMEOUT_S: Final = 2.0


class ReplicaSync:
    """Keeps one process's wheel in line with all others'.

    Args:
        wheel: Moves the calls of this process.
        counters: What replicas share.
        opened: The store, with what people pinned.
        now: Seconds since the epoch.
        say: Takes alerts.
        who: A name no other replica has.
    """

    def __init__(
        self,
        wheel: ObjectiveRouter,
        counters: ObjectiveCounters,
        *,
        opened: Store,
        now: Callable[[], float],
        say: Callable[[Alert], bool],
        who: str,
    ) -> None:
        self._wheel = wheel
        self._counters = counters
        self._opened = opened
        self._now = now
        self._say = say
        self._who = who
        self._judge = Judge(wheel.tracks.values())
        self._news = ObjectiveAlerts()
        self._seen: dict[tuple[str, int], tuple[int, int]] = {}
        self._pins: dict[str, ActivePin] = {}
        self._pinned_at = self._told_at = float("-inf")
        self._heard = now()
        self._is_lost = self._leads = self._is_resumed = False
        self._outage = CountersOutage(wheel.tracks.values(), say)
        self._untold: deque[tuple[TrackedObjective, StateChange, int]] = deque(
            maxlen=_MAX_PENDING_MOVES
        )

    @property
    def _tracks(self) -> Mapping[str, TrackedObjective]:
        """The objectives, by name."""
        return self._wheel.tracks

    def update(self, tracks: dict[str, TrackedObjective], catalog: Catalog) -> None:
        """Go by these objectives from now on.

        Those that stay go on from where they stand, and what was counted of them counts. Alerts
        about those that are gone end.
        """
        now = self._now()
        gone = [each for name, each in self._tracks.items() if name not in tracks]
        for alert in self._news.alerts_of_withdrawal(gone, now):
            self._say(alert)
        self._wheel.update(tracks, catalog)
        self._judge.update(tracks.values(), now)
        kept = self._wheel.standings
        self._wheel.standings = {name: each for name, each in kept.items() if name in tracks}

    async def run(self) -> None:
        """Go on, for ever."""
        while True:
            await self.sync_once()
            await asyncio.sleep(_SYNC_INTERVAL_S)

    async def sync_once(self) -> None:
        """One round; never raises because something is away."""
        now = self._now()
        await self._look_at_pins(now)
        fresh = _countable(self._wheel.tally.drain())
        try:
            if fresh:
                await self._counters.add(fresh)
            epoch = await self._counters.lead(self._who, _LEADER_LEASE_S)
            if epoch is None:
                self._leads = False
                self._adopt_published(await self._counters.standings(), now)
            else:
                await self._lead(epoch, now)
            self._heard = now
            self._record_recovery(now)
        except StoreUnavailable as error:
            await self._run_without_counters(fresh, now, error)
        self._wheel.forget(now)

    async def _lead(self, epoch: int, now: float) -> None:
        """Judge for all, and say how things stand."""
        last = slot_of(now)
        if self._leads:
            await self._read_counts(last, _REREAD_SLOTS)
        else:
            _, told = await self._counters.standings()
            heard = {
                name: each.standing
                for name, each in self._read(told)
                if now - each.at < _STALE_AFTER_S
            }
            # Counters that come back empty know less than we do.
            self._judge.adopt({**_thaw_states(self._wheel.standings, now), **heard}, now)
            self._judge.forget()
            self._seen = {}
            await self._read_counts(last, _FIRST_READ_SLOTS)
            self._leads, self._is_resumed, self._told_at = True, False, float("-inf")
        if not self._is_resumed and now - self._told_at >= _ALERTS_INTERVAL_S:
            await self._resume(now)
        self._judge_objectives(now)
        said = {
            name: msgspec.json.encode(PublishedState(now, standing))
            for name, standing in self._judge.standings.items()
        }
        if await self._counters.publish(epoch, said):
            self._wheel.standings = dict(self._judge.standings)
        else:
            self._leads = False

    async def _resume(self, now: float) -> None:
        """Go on with the alerts that whoever led before left open.

        While the database does not say which those are, nothing is told: it would be told twice.
        """
        outbox = self._opened.outbox
        try:
            async with asyncio.timeout(_DATABASE_TIMEOUT_S):
                told = await self._opened.ask(outbox.open_alerts, MAX_ALERTS)
                ended = await self._opened.ask(outbox.ended_ids, self._news.open_ids)
        except (SQLAlchemyError, TimeoutError) as error:
            _log.warning("Open alerts could not be read: %s", error)
            self._told_at = now
            return
        self._is_resumed = True
        self._outage.resume(told, now)
        for alert in self._news.resume(self._tracks.values(), told, ended, now):
            self._say(alert)

    async def _read_counts(self, last: int, back: int) -> None:
        """Give the judge what was counted since the last time, in so many slots before the last."""
        arms = self._judge.arms
        found: dict[tuple[str, int], tuple[int, int]] = {}
        step = min(MAX_KEYS, MAX_CELLS // (back + 1))
        for at in range(0, len(arms), step):
            found |= await self._counters.read(arms[at : at + step], last - back, last)
        fresh = {}
        for cell, (good, bad) in found.items():
            had = self._seen.get(cell, (0, 0))
            if (good, bad) != had:
                fresh[cell] = (good - had[0], bad - had[1])
        self._judge.count(fresh)
        kept = {
            cell: count for cell, count in self._seen.items() if cell[1] >= last - _REREAD_SLOTS
        }
        self._seen = kept | dict(found)

    def _judge_objectives(self, now: float) -> None:
        for track, move in self._judge.judge(self._pins, now):
            _log.warning("%s is %s: %s", track.name, move.after.value, move.reason)
            calls = sum(n for (name, _), n in self._wheel.rerouted.items() if name == track.name)
            self._untold.append((track, move, calls))
        if self._is_resumed:
            self._send_alerts(now)

    def _send_alerts(self, now: float) -> None:
        """Tell people of moves, and now and then of what burns."""
        while self._untold:
            for alert in self._news.alerts_of_move(*self._untold.popleft()):
                self._say(alert)
        if now - self._told_at >= _ALERTS_INTERVAL_S:
            self._told_at = now
            costs = self._wheel.costs
            for alert in self._news.alerts_of_judgement(
                self._tracks.values(), self._judge, costs, now
            ):
                self._say(alert)

    def _adopt_published(self, told: tuple[int, Mapping[str, bytes]], now: float) -> None:
        """Take over how the leader says things stand; what is old is healthy."""
        heard = {
            name: each.standing
            for name, each in self._read(told[1])
            if now - each.at < _STALE_AFTER_S
        }
        for name, standing in heard.items():
            before = self._wheel.standings.get(name) or ControllerSnapshot(since=now)
            if state_change(before, standing) is not None:
                _log.warning("%s is %s: %s", name, standing.state.value, standing.reason)
        self._wheel.standings = heard

    def _read(self, told: Mapping[str, bytes]) -> list[tuple[str, PublishedState]]:
        """Decodes published states; skips what another version wrote that this one cannot read."""
        found = []
        for name in told.keys() & self._tracks.keys():
            try:
                found.append((name, msgspec.json.decode(told[name], type=PublishedState)))
            except msgspec.DecodeError:
                _log.warning("The published state of %s cannot be read; it is judged anew", name)
        return found

    async def _run_without_counters(
        self, fresh: Mapping[tuple[str, int], tuple[int, int]], now: float, error: StoreUnavailable
    ) -> None:
        """Keep what was heard last for a while, and judge by our own counts after that."""
        if not self._is_lost:
            _log.warning("Objectives keep their fallback levels for now: %s", error)
            self._judge.adopt(self._wheel.standings, now)
        self._is_lost, self._leads = True, False
        self._outage.record_loss(now)
        self._judge.count(fresh)
        if now - self._heard < _STATES_TTL_S:
            for track, move in self._judge.freeze(self._pins, now, _AWAY):
                _log.warning("%s is %s: %s", track.name, move.after.value, move.reason)
        else:
            if not self._is_resumed and now - self._told_at >= _ALERTS_INTERVAL_S:
                await self._resume(now)
            self._thaw(now)
            self._judge_objectives(now)
        self._wheel.standings = dict(self._judge.standings)

    def _thaw(self, now: float) -> None:
        """Let what is frozen for want of counters be judged by our own counts."""
        if any(each.reason == _FROZEN for each in self._judge.standings.values()):
            _log.warning("Objectives are judged by this process's own counts: %s", _AWAY)
            self._judge.adopt(_thaw_states(self._judge.standings, now), now)

    def _record_recovery(self, now: float) -> None:
        """The counters answer, and all is as it was."""
        if self._is_lost:
            self._is_lost = False
            _log.warning("Objectives are judged again by what all processes count")
        self._outage.record_recovery(now)

    async def _look_at_pins(self, now: float) -> None:
        if now - self._pinned_at < _PINS_INTERVAL_S:
            return
        self._pinned_at = now
        try:
            async with asyncio.timeout(_DATABASE_TIMEOUT_S):
                held = await self._opened.ask(self._opened.pins.current_pins, now)
        except (SQLAlchemyError, TimeoutError):
            return  # those that are known hold
        self._pins = {
            name: ActivePin(level=pin.level, made=pin.made, until=pin.until, why=pin.why)
            for name, pin in held.items()
        }


def _thaw_states(
    standings: Mapping[str, ControllerSnapshot], now: float
) -> dict[str, ControllerSnapshot]:
    """The standings, those that froze for want of counters as they were before."""
    return {
        name: thaw_state(each, now) if each.reason == _FROZEN else each
        for name, each in standings.items()
    }


def _countable(
    fresh: Mapping[tuple[str, int], tuple[int, int]],
) -> dict[tuple[str, int], tuple[int, int]]:
    """The counts, those too large to be added at once reduced in proportion."""
    found = {}
    for cell, (good, bad) in fresh.items():
        over = max(-(-max(good, bad) // MOST_COUNTED), 1)
        found[cell] = (good // over, bad // over)
    return found
