"""Opens the counters that replicas share for objectives: in Redis, else in this process."""

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

from proxy.settings import Settings
from proxy.store.ports import ObjectiveCounters
from proxy.store.redis.local_objective_store import LocalCounters

if TYPE_CHECKING:
    from proxy.store.store import Store


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
