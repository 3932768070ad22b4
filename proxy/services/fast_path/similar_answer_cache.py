"""Answers similar questions from the cache, after the cache of equal calls had no answer.

What was found for a call is kept until its own answer comes, which teaches whether it was right. A
share of what might be served goes upstream all the same: these calls are the checks.
"""

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Final

import msgspec

from dashboards.views.fast_path import WrongHit
from proxy.calls.answer_cache_port import AnswerCachePort, CacheResult
from proxy.catalog.entries import Route
from proxy.fast_path.answer_cache.cache_request import CacheRequest, request_key
from proxy.fast_path.answer_cache.cached_answer import CachedAnswer
from proxy.fast_path.similarity.evidence import SimilarityEvidence, copy_of, no_evidence
from proxy.fast_path.similarity.operating_point import DriftTest
from proxy.fast_path.similarity.request_parts import answer_digest, answer_text, split_request
from proxy.fast_path.similarity.similar_answers import Finding, SimilarAnswers, ngram_answers
from proxy.records.call import Call

#: Share of hits that goes upstream as a check.
_CHECKED_SHARE: Final = 0.1
#: Seconds after which a call no longer waits for a lookup.
_LOOKUP_DEADLINE_S: Final = 0.05
#: Lookups under way, beyond which a call is sent without one.
_MAX_LOOKUPS: Final = 4
_MAX_BODY_BYTES: Final = 32 * 1024
#: Calls under way of which it is remembered what was found for them.
_MAX_WAITING: Final = 2_000
_MAX_FEATURES: Final = 256
#: Questions of one context, and of all; one takes about 12 KB.
_MAX_QUESTIONS: Final = 5_000
_MAX_QUESTIONS_IN_ALL: Final = 8_000
#: Wrong hits of a feature that are kept, and characters of each of their texts.
_MAX_WRONG: Final = 20
_MAX_WRONG_CHARS: Final = 500
_NOTE: Final = "answered as a similar question was"


class _Asked(msgspec.Struct):
    """A call under way: its question, its context, and what was found for it."""

    question: str
    context: str
    finding: Finding | None = None


class SimilarAnswerCache:
    """A cache of answers that knows similar questions, too, where a policy says so.

    Attributes:
        flights: Those of the cache of equal calls.
    """

    def __init__(
        self,
        exact: AnswerCachePort,
        dice: Callable[[], float] = random.random,
        evidence: Mapping[tuple[str, str], SimilarityEvidence] | None = None,
    ) -> None:
        """Keep similar answers beside a cache of equal calls.

        Args:
            dice: Decides which hits are checked.
            evidence: Evidence from before, by team and feature.
        """
        self._exact = exact
        self._dice = dice
        self._lock = Lock()
        self._lookups = 0
        self._waiting: OrderedDict[str, _Asked] = OrderedDict()
        self._evidence = OrderedDict(evidence or {})
        for known in self._evidence.values():
            known.drift = DriftTest()
        self._wrong: dict[tuple[str, str], deque[WrongHit]] = {}
        self._contexts: OrderedDict[str, SimilarAnswers] = OrderedDict()
        self.flights = exact.flights

    def covers(self, call: Call) -> bool:
        """As ``AnswerCachePort.covers``."""
        return self._exact.covers(call)

    async def read(self, call: Call, routes: Iterable[Route]) -> CacheRequest | None:
        """As ``AnswerCachePort.read``; notes the question of a call that may have a similar one."""
        routes = tuple(routes)
        request = await self._exact.read(call, routes)
        if request is None or not request.policy.similar or len(call.body) > _MAX_BODY_BYTES:
            return request
        parts = split_request(call.endpoint, request.body)
        if parts is not None:
            context = request_key(call, parts.around, routes)
            self._waiting[request.key] = _Asked(parts.question, context)
            self._waiting.move_to_end(request.key)
            if len(self._waiting) > _MAX_WAITING:
                self._waiting.popitem(last=False)
        return request

    def find(self, request: CacheRequest) -> CachedAnswer | None:
        """As ``AnswerCachePort.find``: the answer to an equal call."""
        return self._exact.find(request)

    async def fetch(self, request: CacheRequest) -> CachedAnswer | None:
        """As ``AnswerCachePort.fetch``; then the answer to a similar question, if proved right."""
        answer = await self._exact.fetch(request)
        waiting = self._waiting.get(request.key)
        if answer is not None or waiting is None or self._lookups >= _MAX_LOOKUPS:
            return answer
        self._lookups += 1
        lookup = asyncio.ensure_future(asyncio.to_thread(self._look_up, request, waiting))
        lookup.add_done_callback(self._end_lookup)
        await asyncio.wait({lookup}, timeout=_LOOKUP_DEADLINE_S)
        if not lookup.done():
            return None
        waiting.finding, is_given = lookup.result()
        return self._take_answer(request, waiting.finding) if is_given else None

    async def keep(self, request: CacheRequest, answer: CachedAnswer) -> None:
        """As ``AnswerCachePort.keep``; then learns whether what was found had been right."""
        await self._exact.keep(request, answer)
        waiting = self._waiting.pop(request.key, None)
        if waiting is not None and answer.is_whole and self._exact.find(request) is not None:
            similar = self._similar_answer(request, waiting.finding)
            await asyncio.to_thread(self._learn, request, waiting, answer, similar)

    def is_purged(self, request: CacheRequest) -> bool:
        """As ``AnswerCachePort.is_purged``."""
        return self._exact.is_purged(request)

    def count(self, call: Call, result: CacheResult, saved_nanos: int | None) -> None:
        """As ``AnswerCachePort.count``."""
        self._exact.count(call, result, saved_nanos)

    async def copy_evidence(self) -> dict[tuple[str, str], SimilarityEvidence]:
        """A copy of what each team's feature has learnt, which stays as it is."""
        return await asyncio.to_thread(self._copy_evidence)

    def last_wrong(self, feature: tuple[str, str]) -> list[WrongHit]:
        """The last wrong hits that checks found of a team's feature, the latest first."""
        return [*self._wrong.get(feature, ())]

    def _copy_evidence(self) -> dict[tuple[str, str], SimilarityEvidence]:
        copies = {}
        with self._lock:
            features = [*self._evidence.items()]
        for feature, evidence in features:
            with self._lock:
                copies[feature] = copy_of(evidence)
        return copies

    def _end_lookup(self, lookup: "asyncio.Future[tuple[Finding, bool]]") -> None:
        self._lookups -= 1

    def _take_answer(self, request: CacheRequest, finding: Finding) -> CachedAnswer | None:
        """The kept answer of a finding, to be given; None where it expired or was purged."""
        answer = self._similar_answer(request, finding)
        if answer is None:
            return None
        self._waiting.pop(request.key, None)
        return msgspec.structs.replace(answer, notes=(*answer.notes, _NOTE))

    def _similar_answer(
        self, request: CacheRequest, finding: Finding | None
    ) -> CachedAnswer | None:
        """The kept answer that a finding would serve; None where there is none."""
        if finding is None or finding.answer is None or not finding.is_served:
            return None
        return self._exact.find(msgspec.structs.replace(request, key=finding.answer.answered.key))

    def _look_up(self, request: CacheRequest, waiting: _Asked) -> tuple[Finding, bool]:
        """Return the finding for a question, and True if it is given; runs on a thread."""
        with self._lock:
            finding = self._answers(request, waiting.context).find(waiting.question)
            checked = self._evidence_of(request).checked_share(_CHECKED_SHARE)
        return finding, finding.is_served and self._dice() >= checked

    def _learn(
        self,
        request: CacheRequest,
        waiting: _Asked,
        answer: CachedAnswer,
        similar: CachedAnswer | None,
    ) -> None:
        """Learns of a call's own answer, and keeps its question; runs on a thread.

        Args:
            similar: The answer that the similar question found for the call has.
        """
        text = answer_text(request.call.endpoint, answer.body)
        if text is None:
            return
        digest = answer_digest(text)
        with self._lock:
            answers = self._answers(request, waiting.context)
            finding = waiting.finding
            if finding is None:
                finding = answers.find(waiting.question)
            else:
                answers.learn(finding, digest)
                if finding.is_served and not finding.is_right(digest):
                    hit = _wrong_hit(request, waiting, answer, similar)
                    place = (request.call.key.team, request.call.feature)
                    self._wrong.setdefault(place, deque(maxlen=_MAX_WRONG)).appendleft(hit)
            answers.remember(request.key, finding, digest)
            self._make_room()

    def _answers(self, request: CacheRequest, context: str) -> SimilarAnswers:
        """The answered questions of a context, which is used by this."""
        answers = self._contexts.get(context)
        if answers is None:
            answers = ngram_answers(self._evidence_of(request), _MAX_QUESTIONS)
            self._contexts[context] = answers
        self._contexts.move_to_end(context)
        return answers

    def _evidence_of(self, request: CacheRequest) -> SimilarityEvidence:
        """The evidence of the team's feature; of too many, the one unused for longest is lost."""
        feature = (request.call.key.team, request.call.feature)
        evidence = self._evidence.get(feature)
        if evidence is None:
            evidence = self._evidence[feature] = no_evidence()
            if len(self._evidence) > _MAX_FEATURES:
                self._wrong.pop(self._evidence.popitem(last=False)[0], None)
        self._evidence.move_to_end(feature)
        evidence.promise = request.policy.max_wrong
        return evidence

    def _make_room(self) -> None:
        """Drops the contexts unused for longest, while all hold too many questions."""
        total = sum(map(len, self._contexts.values()))
        while total > _MAX_QUESTIONS_IN_ALL or len(self._contexts) > _MAX_QUESTIONS_IN_ALL:
            _, dropped = self._contexts.popitem(last=False)
            total -= len(dropped)


def _wrong_hit(
    request: CacheRequest, waiting: _Asked, answer: CachedAnswer, similar: CachedAnswer | None
) -> WrongHit:
    """A wrong hit, with its texts where the policy allows them."""
    chosen = waiting.finding.answer if waiting.finding is not None else None
    if not request.policy.show_wrong or chosen is None:
        return WrongHit(checked_at=answer.started)
    endpoint = request.call.endpoint
    own = answer_text(endpoint, answer.body)
    other = None if similar is None else answer_text(endpoint, similar.body)
    return WrongHit(
        checked_at=answer.started,
        asked=waiting.question[:_MAX_WRONG_CHARS],
        answer=(own or "")[:_MAX_WRONG_CHARS],
        similar=" ".join(chosen.answered.question.words)[:_MAX_WRONG_CHARS],
        similar_answer=(other or "")[:_MAX_WRONG_CHARS],
    )
