"""Objectives as they stand in a running gateway."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_hex

import msgspec

from proxy.catalog.catalog import Catalog
from proxy.steering.counters import counters
from proxy.steering.figures import Figures
from proxy.steering.steering import Steering
from proxy.steering.tracks import track
from proxy.steering.wheel import Wheel
from proxy.store.steering import Counters
from proxy.surroundings import Surroundings
from slo.objective import Objective
from slo.rungs import models

_log = logging.getLogger("thriftgate.objectives")


@asynccontextmanager
async def steering(around: Surroundings) -> AsyncIterator[Wheel | None]:
    """What moves calls; None where there are no objectives."""
    known = around.catalog
    tracks = {each.name: track(meant(each, known)) for each in around.promises.objectives}
    if not tracks:
        yield None
        return
    shared = counters(around.settings, around.opened, around.now)
    where = "in Redis, with all other processes" if shared.is_shared else "in this process alone"
    _log.info("%d objectives, judged %s", len(tracks), where)
    for each in tracks.values():
        unknown = [name for name in models(each.objective) if name not in known.models]
        for name in unknown:
            _log.warning("%s: its rung %r is no model of the catalog: passed over", each.name, name)
    wheel = Wheel(tracks, known)
    around.publish(Figures(wheel))
    works = Steering(
        wheel, shared, opened=around.opened, now=around.now, say=around.say, who=token_hex(8)
    )
    running = around.tasks.keep(works.run)
    try:
        yield wheel
    finally:
        around.tasks.end(running)
        around.tasks.start(partial(_let_go, shared))


def meant(objective: Objective, known: Catalog) -> Objective:
    """The objective, its ladder's dated snapshots as the models that they are of."""
    found = {name: known.find(name) for name in models(objective)}
    named = {name: model.id for name, model in found.items() if model is not None}
    ladder = tuple(named.get(rung, rung) for rung in objective.ladder)
    return msgspec.structs.replace(objective, ladder=ladder)


async def _let_go(shared: Counters) -> None:
    await shared.aclose()
