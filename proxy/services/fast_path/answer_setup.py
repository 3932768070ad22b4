"""Sets up the cache of answers: it follows the policies, and the purges of other processes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from typing import Final

from proxy.app_context import AppContext
from proxy.configuration import Snapshot
from proxy.fast_path.answer_cache.answer_memory import AnswerMemory
from proxy.fast_path.answer_cache.answer_purges import AnswerPurge, PurgeScope
from proxy.records.call import Key
from proxy.services.fast_path.answer_cache import AnswerCache
from proxy.services.fast_path.answer_metrics import AnswerMetrics
from proxy.services.fast_path.shared_store import SharedAnswerStore
from proxy.store.errors import StoreError
from proxy.store.store import Store
from slo.policies.answer_cache import MAX_TTL_S

#: Seconds between two looks for purges of other processes, and by which clocks may differ.
_FOLLOW_INTERVAL_S: Final = 2.0
_CLOCK_MARGIN_S: Final = 30.0


class StoredPurges:
    """A cache of answers with purges that all processes on one database follow."""

    def __init__(self, cache: AnswerCache, store: Store, now: Callable[[], float]) -> None:
        self.cache = cache
        self._store = store
        self._now = now
        self._read_until = now() - MAX_TTL_S

    async def purge(self, key: Key, scope: PurgeScope, name: str) -> int:
        """Purge a team's answers here and, within seconds, in other processes.

        Raises:
            StoreError: The database is away; they are purged here alone.
        """
        purge = AnswerPurge(team=key.team, scope=scope, name=name, purged_at=self._now())
        self.cache.note_purge(purge)
        stored = await self._store.ask(self._store.answer_purges.add, purge, key.id)
        return await self.cache.purge(stored)

    async def follow(self) -> None:
        """Apply the purges of other processes, without end."""
        while True:
            with suppress(StoreError):  # the ledger says that the database is away
                await self.apply_new()
            await asyncio.sleep(_FOLLOW_INTERVAL_S)

    async def apply_new(self) -> None:
        """Apply the purges since the last look.

        Raises:
            StoreError: The database is away.
        """
        looked = self._now()
        for purge in await self._store.ask(self._store.answer_purges.since, self._read_until):
            self.cache.note_purge(purge)
        self._read_until = looked - _CLOCK_MARGIN_S
        self.cache.knows_purges = True


@asynccontextmanager
async def running_answers(context: AppContext) -> AsyncIterator[StoredPurges | None]:
    """The cache of a gateway, with its purges; None without a policies file."""
    if context.settings.policies is None:
        yield None
        return
    memory = AnswerMemory(context.settings.answer_cache_mb * 2**20)
    metrics = AnswerMetrics(memory, context.opened.keyring.team_name)
    context.publish(metrics)
    async with _shared_store(context) as shared:
        cache = AnswerCache(context.policies.answer_cache, memory, context.now, metrics, shared)

        async def prepare(snapshot: Snapshot) -> Callable[[], None]:
            return lambda: cache.update(snapshot.policies.answer_cache)

        context.follow(prepare)
        purges = StoredPurges(cache, context.opened, context.now)
        with suppress(StoreError):  # until they are known, no other process's answers are read
            await purges.apply_new()
        following = context.tasks.keep(purges.follow)
        yield purges
        context.tasks.end(following)


@asynccontextmanager
async def _shared_store(context: AppContext) -> AsyncIterator[SharedAnswerStore | None]:
    """The answers of all gateways; None where the settings name no Redis."""
    settings = context.settings
    if not settings.redis_url:
        yield None
        return
    from proxy.store.redis.answer_store import RedisAnswers  # noqa: PLC0415 - it imports Redis

    organization = blake2b(context.opened.secret, digest_size=8).hexdigest()
    max_bytes = settings.answer_cache_redis_mb * 2**20
    store = RedisAnswers(settings.redis_url, organization, max_bytes)
    try:
        yield SharedAnswerStore(store, context.tasks, asyncio.get_running_loop().time)
    finally:
        await store.aclose()
