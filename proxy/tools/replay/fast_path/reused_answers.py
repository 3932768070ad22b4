"""Recorded calls that kept answers would have served, by the keys and rules of live calls."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from proxy.catalog.entries import Route
from proxy.fast_path.answer_cache.cache_request import CacheRequest, may_be_cached, read_request
from proxy.fast_path.answer_cache.cached_answer import reason_not_kept
from proxy.records.lru_cache import LruCache
from proxy.tools.replay.planning import recorded_as_call
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.variant_totals import MAX_FEATURES, OTHER_FEATURES
from slo.policies.answer_cache import AnswerCachePolicy

#: Calls that are remembered; a live cache is bounded by its bytes.
_MAX_CALLS: Final = 200_000
_CHAT: Final = "chat/completions"
#: Taken of an answer whose end the log does not hold.
_WHOLE: Final = "stop"
DEFAULT_TTL_S: Final = AnswerCachePolicy(name="").ttl


class EqualCalls(msgspec.Struct):
    """Calls that repeat an earlier one, and what they cost.

    Attributes:
        nanos: Their cost in nano-dollars; None where a price is unknown.
        unanswered: Of these, calls whose answer has no known length.
    """

    calls: int = 0
    nanos: int | None = 0
    unanswered: int = 0

    def add(self, nanos: int | None, *, is_answered: bool) -> None:
        """Add a call."""
        self.include(EqualCalls(1, nanos, int(not is_answered)))

    def include(self, other: "EqualCalls") -> None:
        """Add other calls."""
        self.calls += other.calls
        self.unanswered += other.unanswered
        is_known = other.nanos is not None and self.nanos is not None
        self.nanos = (self.nanos or 0) + (other.nanos or 0) if is_known else None

    def with_answers(self, mean: int | None) -> "EqualCalls":
        """The same, each unanswered call charged for the mean answer."""
        if self.nanos is None or not mean:
            return self
        return EqualCalls(self.calls, self.nanos + self.unanswered * mean, self.unanswered)


class ReusedAnswers(msgspec.Struct, kw_only=True):
    """The calls of one feature that an answer of before would have served.

    Attributes:
        repeating: Calls whose answers may be given again, by request or declaration.
        hits: Calls that a kept answer would have served.
        equal: Calls equal to any earlier one, however old, and whatever they ask for.
        is_declared: True if all of its answers are declared reusable.
    """

    feature: str
    is_declared: bool = False
    calls: int = 0
    repeating: int = 0
    hits: EqualCalls = msgspec.field(default_factory=EqualCalls)
    equal: EqualCalls = msgspec.field(default_factory=EqualCalls)


class AnswerReuse:
    """Finds equal calls, in the order of their times.

    Args:
        ttl: Seconds for which an answer may be given again.
        reusable: Features that declare all of their answers to be reusable.
    """

    def __init__(self, ttl: float = DEFAULT_TTL_S, reusable: Collection[str] = ()) -> None:
        self.ttl = ttl
        self._reusable = frozenset(reusable)
        self._kept: LruCache[str, float] = LruCache(_MAX_CALLS)
        self._known: LruCache[str, str] = LruCache(_MAX_CALLS)
        self._features: dict[str, ReusedAnswers] = {}

    def add(
        self, line: RecordedCall, routes: Iterable[Route], now: float, nanos: int | None
    ) -> None:
        """Add a call that cost so much.

        Args:
            routes: Those of the model that it is replayed as.
        """
        totals = self._totals(line.feature)
        totals.calls += 1
        call = recorded_as_call(line, now)
        if not may_be_cached(call):
            return
        routes = tuple(routes)
        declared = line.feature in self._reusable
        request = read_request(call, self._policy(reusable=declared), routes)
        any_request = request or read_request(call, self._policy(reusable=True), routes)
        if any_request is None:
            return
        if any_request.key in self._known:
            totals.equal.add(nanos, is_answered=line.is_answered)
        self._known.put(any_request.key, any_request.key)
        if request is None:
            return
        totals.repeating += 1
        if self._is_hit(request, now):
            totals.hits.add(nanos, is_answered=line.is_answered)
        elif _is_kept(line, keeps_tool_calls=declared):
            self._kept.put(request.key, now)

    def features(self, mean_answers: Mapping[str, int | None]) -> tuple[ReusedAnswers, ...]:
        """The totals of each feature, those of most hits first.

        Args:
            mean_answers: Mean cost of an answer by feature, charged to calls without one.
        """
        whole = (
            msgspec.structs.replace(
                totals,
                hits=totals.hits.with_answers(mean_answers.get(name)),
                equal=totals.equal.with_answers(mean_answers.get(name)),
            )
            for name, totals in self._features.items()
        )
        return tuple(sorted(whole, key=lambda totals: (-totals.hits.calls, -totals.equal.calls)))

    def _is_hit(self, request: CacheRequest, now: float) -> bool:
        started = self._kept.get(request.key)
        return started is not None and request.accepts(now - started)

    def _policy(self, *, reusable: bool) -> AnswerCachePolicy:
        return AnswerCachePolicy(name="replay", ttl=self.ttl, reusable=reusable)

    def _totals(self, feature: str) -> ReusedAnswers:
        if feature not in self._features and len(self._features) >= MAX_FEATURES:
            feature = OTHER_FEATURES
        totals = self._features.get(feature)
        if totals is None:
            declared = feature in self._reusable
            totals = ReusedAnswers(feature=feature, is_declared=declared)
            self._features[feature] = totals
        return totals


def _is_kept(line: RecordedCall, *, keeps_tool_calls: bool) -> bool:
    """True if the recorded answer may be given again; what the log does not hold is no reason."""
    choice = {"message": msgspec.Raw(line.reply), "finish_reason": line.ending or _WHOLE}
    body = msgspec.json.encode({"choices": [choice]})
    return not reason_not_kept(_CHAT, body, keeps_tool_calls=keeps_tool_calls)
