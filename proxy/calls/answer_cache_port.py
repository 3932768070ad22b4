"""The port by which calls are answered from answers given before."""

from collections.abc import Iterable, MutableMapping
from enum import StrEnum
from typing import Protocol

from proxy.catalog.entries import Route
from proxy.fast_path.answer_cache.cache_request import CacheRequest
from proxy.fast_path.answer_cache.cached_answer import CachedAnswer
from proxy.records.call import Call


class CacheResult(StrEnum):
    """The part that the cache of answers had in a call."""

    HIT = "hit"  #: It was answered by an answer given before.
    SHARED = "shared"  #: It was answered by the answer to an equal call under way.
    MISS = "miss"  #: It was sent upstream.
    FAILED = "failed"  #: A part of the cache failed; the call went on without it.


class AnswerCachePort(Protocol):
    """Keeps answers that may be given again to equal calls; a call goes on where a part fails.

    Attributes:
        flights: Answers under way that equal calls may share, by their key.
    """

    flights: MutableMapping[str, object]

    def covers(self, call: Call) -> bool:
        """True if a policy is about the call's feature; costs next to nothing."""
        ...

    async def read(self, call: Call, routes: Iterable[Route]) -> CacheRequest | None:
        """The call as one that may be cached; None where it may not.

        Args:
            routes: Those of the model that it asks for.
        """
        ...

    def find(self, request: CacheRequest) -> CachedAnswer | None:
        """The answer in memory to an equal call."""
        ...

    async def fetch(self, request: CacheRequest) -> CachedAnswer | None:
        """The answer that is kept elsewhere, if it comes soon."""
        ...

    async def keep(self, request: CacheRequest, answer: CachedAnswer) -> None:
        """Keep an answer, if it is one that may be given again."""
        ...

    def is_purged(self, request: CacheRequest) -> bool:
        """True if the answer to a call, perhaps under way, was purged since it was asked for."""
        ...

    def count(self, call: Call, result: CacheResult, saved_nanos: int | None) -> None:
        """Count a call by the cache's part in it."""
        ...
