"""Opening the counters of budgets: in Redis where the settings name one, else in this process.

The Redis client is imported only where the settings name a Redis: it takes a tenth of a second.
"""

from collections.abc import Callable
from hashlib import blake2b
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from proxy.errors import how_to_install
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore
from proxy.store.redis.local_budget_store import LocalBudgetStore

if TYPE_CHECKING:
    from proxy.store.redis.leased_counters import LeasedCounters
    from proxy.store.store import Store

#: Seconds that Redis has to answer a check of whether it is there.
_PING_TIMEOUT_S: Final = 1.0


def open_budget_store(settings: Settings, opened: "Store") -> BudgetStore:
    """Open the store that counts budgets.

    Raises:
        ValueError: If THRIFTGATE_REDIS_URL is none.
    """
    if not settings.redis_url:
        return LocalBudgetStore()
    from proxy.store.redis.budget_store import RedisBudgetStore  # noqa: PLC0415 - it imports Redis

    organization = blake2b(opened.secret, digest_size=8).hexdigest()
    store = RedisBudgetStore(settings.redis_url, organization)
    store.counts_ended = True
    return store


def with_leases(store: BudgetStore, now: Callable[[], float]) -> "LeasedCounters | None":
    """The same counters with leases, where they are Redis's; None where they are not."""
    if not store.is_shared:
        return None
    from proxy.store.redis.budget_store import RedisBudgetStore  # noqa: PLC0415 - the same
    from proxy.store.redis.leased_counters import LeasedCounters  # noqa: PLC0415 - it imports Redis

    return LeasedCounters(store, now) if isinstance(store, RedisBudgetStore) else None


def check_counters(settings: Settings) -> None:
    """Check that the settings' URL of counters is valid.

    Raises:
        ValueError: If THRIFTGATE_REDIS_URL is no such URL, or the extra ``redis`` is missing.
    """
    if settings.redis_url:
        if find_spec("redis") is None:
            raise ValueError(f"Redis needs a package: {how_to_install('redis')}")
        from proxy.store.redis.budget_store import RedisBudgetStore  # noqa: PLC0415 - it imports Redis

        RedisBudgetStore(settings.redis_url, "check")


async def redis_problem(settings: Settings) -> str:
    """Reason that the settings' Redis does not answer; "" where it does, or there is none.

    Raises:
        ValueError: If THRIFTGATE_REDIS_URL is none.
    """
    if not settings.redis_url:
        return ""
    from proxy.store.redis.objective_store import RedisCounters  # noqa: PLC0415 - it imports Redis

    shared = RedisCounters(settings.redis_url, "check", deadline=_PING_TIMEOUT_S)
    try:
        await shared.snapshots()
    except StoreError as error:
        return str(error)
    finally:
        await shared.aclose()
    return ""
