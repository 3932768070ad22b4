"""The cache of answers in a running gateway: policies, memory, and what is kept for others."""

import asyncio
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Final

from proxy.calls.answer_cache_port import CacheResult
from proxy.catalog.entries import Route
from proxy.fast_path.answer_cache.answer_memory import AnswerMemory
from proxy.fast_path.answer_cache.answer_purges import AnswerPurge, PurgeLog, purge_names
from proxy.fast_path.answer_cache.cache_control import ANYTHING, parse_cache_control, parse_tags
from proxy.fast_path.answer_cache.cache_request import (
    LARGE_BODY_BYTES,
    CacheRequest,
    may_be_cached,
    read_request,
)
from proxy.fast_path.answer_cache.cached_answer import (
    LARGE_ANSWER_BYTES,
    CachedAnswer,
    reason_not_kept,
)
from proxy.records.call import Call
from proxy.services.fast_path.answer_metrics import AnswerMetrics
from proxy.services.fast_path.shared_store import SharedAnswerStore
from slo.policies.answer_cache import AnswerCachePolicy, answer_cache_of

#: Teams' features of which it is remembered which policy they have.
_MAX_FEATURES: Final = 4_096
#: Answers that a purge looks through at a time.
_SCAN_SLICE: Final = 100


class AnswerCache:
    """Keeps the answers of one process.

    Attributes:
        flights: Answers under way that equal calls may share, by their key.
        knows_purges: True once the purges of all processes are noted; before, none of another
            process's answers is given.
    """

    def __init__(
        self,
        policies: Sequence[AnswerCachePolicy],
        memory: AnswerMemory,
        now: Callable[[], float],
        metrics: AnswerMetrics,
        shared: SharedAnswerStore | None = None,
    ) -> None:
        self._memory = memory
        self._shared = shared
        self._now = now
        self._metrics = metrics
        self._purges = PurgeLog()
        self.knows_purges = False
        self._by_feature: dict[tuple[str, str], AnswerCachePolicy | None] = {}
        self.flights: MutableMapping[str, object] = {}
        self.update(policies)

    def update(self, policies: Sequence[AnswerCachePolicy]) -> None:
        """Go by these policies from now on; an answer is as old as it is."""
        self._policies = tuple(policies)
        self._by_feature.clear()

    def covers(self, call: Call) -> bool:
        """True if a policy is about the call's feature."""
        return bool(self._policies) and self._policy(call) is not None

    async def read(self, call: Call, routes: Iterable[Route]) -> CacheRequest | None:
        """As ``AnswerCachePort.read``; a large body is read on a thread."""
        policy = self._policy(call)
        control = parse_cache_control(call.cache_control) if call.cache_control else ANYTHING
        if policy is None or control.no_store or not may_be_cached(call):
            return None
        tags = parse_tags(call.cache_tags) if call.cache_tags else ()
        if len(call.body) < LARGE_BODY_BYTES:
            return read_request(call, policy, routes, control, tags)
        return await asyncio.to_thread(read_request, call, policy, routes, control, tags)

    def find(self, request: CacheRequest) -> CachedAnswer | None:
        """As ``AnswerCachePort.find``; an answer that is purged or too old is dropped."""
        call = request.call
        answer = self._memory.get(call.key.team, request.key)
        if answer is None:
            return None
        age, is_purged = self._age_s(answer), self._purges.covers(answer)
        if not is_purged and request.accepts(age):
            return answer
        if is_purged or age >= request.policy.ttl:
            self._memory.drop(call.key.team, request.key)
        return None

    async def fetch(self, request: CacheRequest) -> CachedAnswer | None:
        """As ``AnswerCachePort.fetch``: what another process kept, which is kept here then."""
        if self._shared is None or not self.knows_purges:
            return None
        answer, call = await self._shared.get(request.key), request.call
        if answer is None or (answer.team, answer.key) != (call.key.team, request.key):
            return None
        if self._purges.covers(answer) or not request.accepts(self._age_s(answer)):
            return None
        self._memory.put(answer)
        return answer

    async def keep(self, request: CacheRequest, answer: CachedAnswer) -> None:
        """As ``AnswerCachePort.keep``; a long answer is looked through on a thread."""
        endpoint, body, reusable = request.call.endpoint, answer.body, request.policy.reusable
        if len(body) < LARGE_ANSWER_BYTES:
            why = reason_not_kept(endpoint, body, keeps_tool_calls=reusable)
        else:
            why = await asyncio.to_thread(
                reason_not_kept, endpoint, body, keeps_tool_calls=reusable
            )
        if not why and self._purges.covers(answer):
            why = "purged"
        if not why and not self._memory.put(answer):
            why = "too long"
        if not why and self._shared is not None:
            self._shared.put(answer, request.policy.ttl)
        self._metrics.note_kept(why)

    def is_purged(self, request: CacheRequest) -> bool:
        """As ``AnswerCachePort.is_purged``."""
        call = request.call
        names = purge_names(call.feature, request.key, request.tags)
        return self._purges.covers_names(call.key.team, names, call.arrived)

    def _age_s(self, answer: CachedAnswer) -> float:
        """Seconds since an answer was asked for."""
        return max(self._now() - answer.started, 0.0)

    def count(self, call: Call, result: CacheResult, saved_nanos: int | None) -> None:
        """As ``AnswerCachePort.count``."""
        self._metrics.count((call.key.team, call.feature), result, saved_nanos)

    def note_purge(self, purge: AnswerPurge) -> None:
        """Give the answers that a purge covers again no longer; each is dropped when asked for."""
        self._purges.note(purge)

    async def purge(self, purge: AnswerPurge) -> int:
        """As ``note_purge``, and drop them bit by bit; returns how many were in memory."""
        self.note_purge(purge)
        return await self._drop_covered(purge)

    async def _drop_covered(self, purge: AnswerPurge) -> int:
        """Drop what a purge covers, a slice at a time, for other calls wait meanwhile."""
        answers, dropped = self._memory.answers(purge.team), 0
        while answers:
            covered = [answer for answer in answers[-_SCAN_SLICE:] if purge.covers(answer)]
            del answers[-_SCAN_SLICE:]  # to free so many at once takes long, too
            dropped += len(covered)
            for answer in covered:
                self._memory.drop(answer.team, answer.key)
            await asyncio.sleep(0)
        return dropped

    def _policy(self, call: Call) -> AnswerCachePolicy | None:
        """The policy of a call's feature; remembered, for features are whatever callers say."""
        caller = (call.key.team_name, call.feature)
        try:
            return self._by_feature[caller]
        except KeyError:
            if len(self._by_feature) >= _MAX_FEATURES:
                self._by_feature.clear()
            policy = self._by_feature[caller] = answer_cache_of(self._policies, *caller)
            return policy
