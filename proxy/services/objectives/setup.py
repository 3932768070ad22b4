"""Sets up objectives in a running gateway, and keeps them in line with the policies file."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import msgspec
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.app_context import AppContext
from proxy.catalog.catalog import Catalog
from proxy.configuration import Snapshot
from proxy.records.amounts import quantity
from proxy.services.objectives.objective_state import (
    STATE_NAMES,
    shown_state,
    track_objective,
)
from proxy.services.objectives.replica_sync import ReplicaSync
from proxy.services.objectives.router import ObjectiveRouter
from proxy.settings import Settings
from proxy.store.ports import ObjectiveCounters
from proxy.store.redis.local_objective_store import LocalCounters
from slo.objectives.ladder_levels import model_levels
from slo.objectives.objective import Objective

if TYPE_CHECKING:
    from proxy.store.store import Store


_log = logging.getLogger("thriftgate.objectives")
_ALONE: Final = "in this process alone"


@asynccontextmanager
async def running_objectives(around: AppContext) -> AsyncIterator[ObjectiveRouter | None]:
    """Runs objectives; yields their router, None without a policies file.

    Objectives may be added, removed and changed while the gateway runs; those that stay keep
    their states.
    """
    if around.settings.policies is None:
        yield None
        return
    shared = open_objective_counters(around.settings, around.opened, around.now)
    router = ObjectiveRouter({}, around.catalog, around.replica_costs.tariff)
    sync = ReplicaSync(
        router,
        shared,
        opened=around.opened,
        now=around.now,
        send_alert=around.alert,
        replica=token_hex(8),
    )
    objectives = _Objectives(around, router, sync, is_shared=shared.is_shared)
    objectives.commit(Snapshot(around.catalog, around.policies))
    around.follow(objectives.prepare)
    try:
        yield router
    finally:
        around.tasks.end(*objectives.running)
        around.tasks.start(shared.aclose)


class _Objectives:
    """Objectives by the snapshot in force.

    Attributes:
        running: The task that syncs with other processes; empty until there is an objective.
    """

    def __init__(
        self, around: AppContext, router: ObjectiveRouter, sync: ReplicaSync, *, is_shared: bool
    ) -> None:
        self._around = around
        self._router = router
        self._sync = sync
        self._is_shared = is_shared
        self.running: list[asyncio.Task[None]] = []

    async def prepare(self, snapshot: Snapshot) -> Callable[[], None]:
        """Returns what applies a snapshot; nothing has to be got ready."""
        return partial(self.commit, snapshot)

    def commit(self, snapshot: Snapshot) -> None:
        """Apply a snapshot."""
        catalog = snapshot.catalog
        tracks = {
            objective.name: track_objective(resolve_snapshots(objective, catalog))
            for objective in snapshot.policies.objectives
        }
        for track in tracks.values():
            unknown = [name for name in model_levels(track.objective) if name not in catalog.models]
            for name in unknown:
                _log.warning(
                    "%s: skipped fallback level %r, which is no model of the catalog",
                    track.name,
                    name,
                )
        self._sync.update(tracks, catalog)
        if tracks and not self.running:
            where = "in Redis, with all other processes" if self._is_shared else _ALONE
            _log.info("%s, judged %s", quantity(len(tracks), "objective"), where)
            self._around.publish(ObjectiveMetrics(self._router))
            self.running = [self._around.tasks.keep(self._sync.run)]


def resolve_snapshots(objective: Objective, catalog: Catalog) -> Objective:
    """The objective, with dated snapshots on its ladder replaced by their models."""
    models = {name: catalog.find(name) for name in model_levels(objective)}
    named = {name: model.id for name, model in models.items() if model is not None}
    ladder = tuple(named.get(entry, entry) for entry in objective.ladder)
    return msgspec.structs.replace(objective, ladder=ladder)


class ObjectiveMetrics(Collector):
    """Counts of good and bad events, and each objective's state and fallback level."""

    def __init__(self, router: ObjectiveRouter) -> None:
        self._router = router

    def collect(self) -> Iterator[Metric]:
        """All of it, as Prometheus' own types."""
        router = self._router
        by = ["objective"]
        good = CounterMetricFamily("thriftgate_objective_good", "Events that kept it", labels=by)
        bad = CounterMetricFamily("thriftgate_objective_bad", "Events that missed it", labels=by)
        for name in router.tracks:  # also those without a call so far
            good_calls, missed = router.totals.get(name, (0, 0))
            good.add_metric([name], good_calls)
            bad.add_metric([name], missed)
        level = GaugeMetricFamily(
            "thriftgate_objective_level", "Fallback level of new conversations", labels=by
        )
        state = GaugeMetricFamily(
            "thriftgate_objective_state", "1 for the state it is in", labels=[*by, "state"]
        )
        for name in router.tracks:
            shown = shown_state(router.snapshots.get(name), router.missed.get(name))
            level.add_metric([name], shown.level)
            for state_name in STATE_NAMES:
                state.add_metric([name, state_name], float(state_name == shown.name))
        fallback = CounterMetricFamily(
            "thriftgate_fallback_calls", "Calls that fell back to a level", labels=[*by, "level"]
        )
        unenforced = CounterMetricFamily(
            "thriftgate_unenforced_fallback_calls",
            "Calls that would have fallen back, were the objective enforced",
            labels=[*by, "level"],
        )
        for family, counts in ((fallback, router.rerouted), (unenforced, router.not_enforced)):
            for (name, entry), count in list(counts.items()):
                family.add_metric([name, entry], count)
        stages = CounterMetricFamily(
            "thriftgate_objective_late_stage",
            "Late calls by the stage that broke them",
            labels=[*by, "stage"],
        )
        for (name, stage), count in list(router.misses.totals.items()):
            stages.add_metric([name, stage], count)
        yield from (good, bad, level, state, fallback, unenforced, stages)


def open_objective_counters(
    settings: Settings, opened: "Store", now: Callable[[], float]
) -> ObjectiveCounters:
    """Opens the shared counters: in Redis where the settings name one, else in this process.

    Raises:
        ValueError: If THRIFTGATE_REDIS_URL is none.
    """
    if not settings.redis_url:
        return LocalCounters(now)
    from proxy.store.redis.objective_store import RedisCounters  # noqa: PLC0415 - it imports Redis

    return RedisCounters(settings.redis_url, blake2b(opened.secret, digest_size=8).hexdigest())
