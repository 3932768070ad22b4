"""Objectives as they stand in a running gateway."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from hashlib import blake2b
from secrets import token_hex

from proxy.steering.figures import Figures
from proxy.steering.steering import Steering
from proxy.steering.tracks import track
from proxy.steering.wheel import Wheel
from proxy.store.redis_steering import Together
from proxy.store.steering import Alone, Counters
from proxy.surroundings import Surroundings
from slo.rungs import models

_log = logging.getLogger("thriftgate.objectives")


@asynccontextmanager
async def steering(around: Surroundings) -> AsyncIterator[Wheel | None]:
    """What moves calls; None where there are no objectives."""
    tracks = {each.name: track(each) for each in around.promises.objectives}
    if not tracks:
        yield None
        return
    counters = _counters(around)
    where = "in Redis, with all other processes" if counters.is_shared else "in this process alone"
    _log.info("%d objectives, judged %s", len(tracks), where)
    for each in tracks.values():
        unknown = [name for name in models(each.objective) if name not in around.catalog.models]
        for name in unknown:
            _log.warning("%s: its rung %r is no model of the catalog: passed over", each.name, name)
    wheel = Wheel(tracks, around.catalog)
    around.publish(Figures(wheel))
    works = Steering(
        wheel, counters, opened=around.opened, now=around.now, say=around.say, who=token_hex(8)
    )
    running = around.tasks.start(works.run)
    try:
        yield wheel
    finally:
        running.cancel()
        around.tasks.start(partial(_let_go, counters))


def _counters(around: Surroundings) -> Counters:
    """What replicas share: Redis where the settings name one."""
    url = around.settings.redis_url
    if not url:
        return Alone(around.now)
    return Together(url, blake2b(around.opened.secret, digest_size=8).hexdigest())


async def _let_go(counters: Counters) -> None:
    await counters.aclose()
