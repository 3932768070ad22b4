"""Several gateways that steer by what they share, in time that is set."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from proxy.services.objectives.objective_state import TrackedObjective, track_objective
from proxy.services.objectives.replica_sync import ReplicaSync
from proxy.services.objectives.router import ObjectiveRouter
from proxy.store.errors import StoreError
from proxy.store.ports import ObjectiveCounters
from proxy.store.redis.local_objective_store import LocalCounters
from proxy.store.sql.settings.pins import PinRow
from proxy.store.store import Store
from slo.alert import Alert
from slo.controller.state import ControllerState
from slo.objectives.objective import Enforce, Metric, Objective
from tests.fakes.chaos import two_model_catalog

START = 1_790_000_000.0


def objective(**fields: Any) -> Objective:
    values: dict[str, Any] = {
        "name": "chat-ttft",
        "metric": Metric.TTFT,
        "target": 0.95,
        "under": 0.5,
        "enforce": Enforce.DEGRADE,
        "ladder": ("elsewhere", "small"),
    }
    return Objective(**{**values, **fields})


def tracks(*objectives: Objective) -> dict[str, TrackedObjective]:
    return {track.name: track_objective(track) for track in objectives or (objective(),)}


class LosableObjectiveStore:
    """Counters that can be out of reach."""

    def __init__(self, world: "ReplicaGroup") -> None:
        self._world = world
        self.is_lost = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._world.counters, name)
        if not self.is_lost:
            return method

        async def lost(*_: Any) -> Any:
            raise StoreError("it is away")

        return lost


class FakeStore:
    """The part of a store that steering reads: pins and open alerts."""

    def __init__(self) -> None:
        self.pinned: dict[str, PinRow] = {}
        self.alerts: dict[str, Alert] = {}
        self.is_away = self.is_slow = False
        self.pins = self.outbox = self

    async def ask(self, question: Callable[..., Any], *args: Any) -> Any:
        if self.is_slow:
            await asyncio.sleep(3600)
        if self.is_away:
            raise StoreError("away")
        return question(*args)

    def current_pins(self, now: float) -> Mapping[str, PinRow]:
        return {name: pin for name, pin in self.pinned.items() if pin.until > now}

    def open_alerts(self, limit: int) -> list[Alert]:
        return [alert for alert in self.alerts.values() if alert.is_open][:limit]

    def ended_ids(self, ids: list[str]) -> set[str]:
        return {id_ for id_ in ids if id_ in self.alerts and not self.alerts[id_].is_open}


class Replica:
    """One of the gateways."""

    def __init__(self, world: "ReplicaGroup", who: str) -> None:
        self._world = world
        self.said: list[Alert] = []
        self.counters = LosableObjectiveStore(world)
        self.router = ObjectiveRouter({}, two_model_catalog())  # as a gateway begins
        self.steering = ReplicaSync(
            self.router,
            cast(ObjectiveCounters, self.counters),
            opened=cast(Store, world.kept),
            now=lambda: world.now,
            send_alert=self._say,
            replica=who,
        )
        self.steering.update(world.tracks, two_model_catalog())

    def _say(self, alert: Alert) -> bool:
        self.said.append(alert)
        if not alert.is_open or alert.id not in self._world.kept.alerts:
            self._world.kept.alerts[alert.id] = alert
        return True

    @property
    def state(self) -> tuple[ControllerState, int]:
        """Of the first objective."""
        snapshot = self.router.snapshots.get(next(iter(self._world.tracks)))
        return (
            (ControllerState.HEALTHY, 0) if snapshot is None else (snapshot.state, snapshot.level)
        )

    def answers(self, good: int, bad: int, level: int = 0) -> None:
        """So many calls end, now."""
        first = next(iter(self._world.tracks.values()))
        self.router.tally.add(first.arm(level), good, bad, self._world.now)


class ReplicaGroup:
    """Replicas that share counters, a store and a clock."""

    def __init__(self, *objectives: Objective, counters: ObjectiveCounters | None = None) -> None:
        self.now = START
        self.tracks = tracks(*objectives)
        self.counters: ObjectiveCounters = counters or LocalCounters(lambda: self.now)
        self.kept = FakeStore()

    def replica(self, who: str) -> Replica:
        return Replica(self, who)

    def forget(self) -> None:
        """The counters lose all they kept."""
        self.counters = LocalCounters(lambda: self.now)

    async def goes_on(
        self, seconds: float, *replicas: Replica, good: int = 0, bad: int = 0, level: int = 0
    ) -> None:
        """Time passes; each second every replica answers so many calls, and takes its turn."""
        for _ in range(int(seconds)):
            self.now += 1.0
            for replica in replicas:
                if good or bad:
                    replica.answers(good, bad, level)
                await replica.steering.sync_once()
