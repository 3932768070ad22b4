"""Objectives as they stand in a running gateway."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_hex
from typing import Final

import msgspec

from proxy.app_context import AppContext
from proxy.catalog.catalog import Catalog
from proxy.configuration import Snapshot
from proxy.records.amounts import quantity
from proxy.services.objectives.counters import open_objective_counters
from proxy.services.objectives.figures import ObjectiveMetrics
from proxy.services.objectives.objective_state import track_objective
from proxy.services.objectives.replica_sync import ReplicaSync
from proxy.services.objectives.router import ObjectiveRouter
from proxy.store.redis.local_objective_store import ObjectiveCounters
from slo.ladder_levels import model_levels
from slo.objective import Objective

_log = logging.getLogger("thriftgate.objectives")
_ALONE: Final = "in this process alone"


@asynccontextmanager
async def running_objectives(around: AppContext) -> AsyncIterator[ObjectiveRouter | None]:
    """Runs objectives; yields their router, None without a policies file.

    It follows the file: objectives may come, go and change while the gateway runs, and those that
    stay go on from where they stand.
    """
    if around.settings.policies is None:
        yield None
        return
    shared = open_objective_counters(around.settings, around.opened, around.now)
    wheel = ObjectiveRouter({}, around.catalog)
    works = ReplicaSync(
        wheel, shared, opened=around.opened, now=around.now, say=around.alert, who=token_hex(8)
    )
    room = _Objectives(around, wheel, works, is_shared=shared.is_shared)
    room.commit(Snapshot(around.catalog, around.promises))
    around.follow(room.prepare)
    try:
        yield wheel
    finally:
        around.tasks.end(*room.running)
        around.tasks.start(partial(_let_go, shared))


class _Objectives:
    """Objectives by the snapshot in force.

    Attributes:
        running: What keeps them in line with all other processes'; empty until there is one.
    """

    def __init__(
        self, around: AppContext, wheel: ObjectiveRouter, works: ReplicaSync, *, is_shared: bool
    ) -> None:
        self._around = around
        self._wheel = wheel
        self._works = works
        self._is_shared = is_shared
        self.running: list[asyncio.Task[None]] = []

    async def prepare(self, snapshot: Snapshot) -> Callable[[], None]:
        """Returns what applies a snapshot; nothing has to be got ready."""
        return partial(self.commit, snapshot)

    def commit(self, snapshot: Snapshot) -> None:
        """Make a snapshot hold."""
        known = snapshot.catalog
        tracks = {
            each.name: track_objective(resolve_snapshots(each, known))
            for each in snapshot.policies.objectives
        }
        for each in tracks.values():
            unknown = [name for name in model_levels(each.objective) if name not in known.models]
            for name in unknown:
                _log.warning(
                    "%s: its fallback level %r is no model of the catalog: skipped", each.name, name
                )
        self._works.update(tracks, known)
        if tracks and not self.running:
            where = "in Redis, with all other processes" if self._is_shared else _ALONE
            _log.info("%s, judged %s", quantity(len(tracks), "objective"), where)
            self._around.publish(ObjectiveMetrics(self._wheel))
            self.running = [self._around.tasks.keep(self._works.run)]


def resolve_snapshots(objective: Objective, known: Catalog) -> Objective:
    """The objective, its ladder's dated snapshots as the models that they are of."""
    found = {name: known.find(name) for name in model_levels(objective)}
    named = {name: model.id for name, model in found.items() if model is not None}
    ladder = tuple(named.get(rung, rung) for rung in objective.ladder)
    return msgspec.structs.replace(objective, ladder=ladder)


async def _let_go(shared: ObjectiveCounters) -> None:
    await shared.aclose()
