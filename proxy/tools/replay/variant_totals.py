"""Tokens and cost of the same calls, by the way they are sent and by feature."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from slo.usage import Usage

#: Features that have totals of their own; the others share one.
MAX_FEATURES: Final = 500
OTHER_FEATURES: Final = "(others)"


class VariantTotals(msgspec.Struct):
    """Tokens and cost of some calls, sent in one way.

    Attributes:
        cache_write_tokens: Of these, stored at a price.
        nanos: Cost in nano-dollars; None where a price is unknown.
        refused: Calls the provider would have refused for their marks; they count as uncached.
    """

    calls: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    nanos: int | None = 0
    refused: int = 0

    @property
    def hit_rate(self) -> float:
        """Cache-read tokens ÷ input tokens; 0 where there are none."""
        return self.cache_read_tokens / self.input_tokens if self.input_tokens else 0.0

    def add(self, usage: Usage, nanos: int | None) -> None:
        """Add a call that cost so much; None for a price that is not known."""
        self.calls += 1
        self.input_tokens += usage.prompt_tokens
        self.cache_read_tokens += usage.cache_read
        self.cache_write_tokens += usage.cache_write_tokens
        self.output_tokens += usage.generated_tokens
        self.charge(nanos)

    def charge(self, nanos: int | None) -> None:
        """Add to the cost."""
        self.nanos = None if nanos is None or self.nanos is None else self.nanos + nanos

    def include(self, other: "VariantTotals") -> None:
        """Add the totals of other calls."""
        self.calls += other.calls
        self.input_tokens += other.input_tokens
        self.cache_read_tokens += other.cache_read_tokens
        self.cache_write_tokens += other.cache_write_tokens
        self.output_tokens += other.output_tokens
        self.refused += other.refused
        self.charge(other.nanos)


class FeatureTotals(msgspec.Struct, kw_only=True):
    """The calls of one feature, in every way they were sent.

    Answers whose length nothing says are taken to be as long as the others of the feature.

    Attributes:
        ways: One for each way, the unmodified one first.
        least: The same calls, every prompt that a cache may hold being read from it: no order of
            their text and no marks cost less.
        answer_nanos: Cost of the answers that could be; None where a price is unknown.
    """

    feature: str
    ways: list[VariantTotals]
    least: VariantTotals = msgspec.field(default_factory=VariantTotals)
    unanswered: int = 0
    answer_nanos: int | None = 0

    @property
    def calls(self) -> int:
        """All calls of it."""
        return self.ways[0].calls

    def add_answer(self, nanos: int | None) -> None:
        """Add the cost of an answer that could be read."""
        is_priced = nanos is not None and self.answer_nanos is not None
        self.answer_nanos = (self.answer_nanos or 0) + (nanos or 0) if is_priced else None

    def mean_answer_nanos(self) -> int | None:
        """Mean cost of an answer; None where none was read, or none has a price."""
        answered = self.calls - self.unanswered
        return self.answer_nanos // answered if answered and self.answer_nanos is not None else None

    def with_estimated_answers(self, mean: int | None) -> "FeatureTotals":
        """The same, its unanswered calls charged for the mean answer, of this feature if known."""
        own = self.mean_answer_nanos()
        answer_nanos = own if own is not None else mean or 0
        *ways, least = (msgspec.structs.replace(way) for way in (*self.ways, self.least))
        for way in (*ways, least):
            way.charge(self.unanswered * answer_nanos)
        return msgspec.structs.replace(self, ways=ways, least=least)


class TotalsByFeature:
    """The totals of each feature; bounded."""

    def __init__(self, ways: int) -> None:
        self._ways = ways
        self._features: dict[str, FeatureTotals] = {}

    def of(self, feature: str) -> FeatureTotals:
        """The feature's totals, to add to."""
        if feature not in self._features and len(self._features) >= MAX_FEATURES:
            feature = OTHER_FEATURES
        totals = self._features.get(feature)
        if totals is None:
            totals = self._features[feature] = new_totals(feature, self._ways)
        return totals

    def features(self) -> list[FeatureTotals]:
        """The totals, with an estimate for answers that could not be read."""
        whole = new_totals("", self._ways)
        for feature in self._features.values():
            include(whole, feature)
        mean = whole.mean_answer_nanos()
        return [feature.with_estimated_answers(mean) for feature in self._features.values()]


def new_totals(feature: str, ways: int) -> FeatureTotals:
    """The totals of no calls yet."""
    return FeatureTotals(feature=feature, ways=[VariantTotals() for _ in range(ways)])


def include(whole: FeatureTotals, part: FeatureTotals) -> None:
    """Add one feature's totals to others."""
    for way, more in zip(whole.ways, part.ways, strict=True):
        way.include(more)
    whole.least.include(part.least)
    whole.unanswered += part.unanswered
    is_priced = whole.answer_nanos is not None and part.answer_nanos is not None
    whole.answer_nanos = (whole.answer_nanos or 0) + (part.answer_nanos or 0) if is_priced else None


class CumulativeCosts:
    """The cost of each way after each call; of many calls, every second point goes."""

    def __init__(self, ways: int, max_points: int = 200) -> None:
        self._most = max_points
        self._sums = [0] * ways
        self._calls = self._unanswered = 0
        self._step = 1
        self._points: list[tuple[int, int, tuple[int, ...]]] = []

    def add(self, costs: Sequence[int | None], *, is_answered: bool) -> None:
        """Add a call with its cost in each way; one without a known price is left out."""
        amounts = [nanos for nanos in costs if nanos is not None]
        if len(amounts) < len(self._sums):
            return
        self._calls += 1
        self._unanswered += not is_answered
        self._sums = [total + nanos for total, nanos in zip(self._sums, amounts, strict=True)]
        if self._calls % self._step == 0:
            self._points.append((self._calls, self._unanswered, tuple(self._sums)))
        if len(self._points) > self._most:
            self._points = self._points[1::2]
            self._step *= 2

    def curves(
        self, totals: Sequence[VariantTotals]
    ) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        """Calls up to each point, and each way's cost; empty where a price is unknown.

        Args:
            totals: The ways at the end. What they cost more is that of answers estimated.
        """
        ends = [way.nanos for way in totals if way.nanos is not None]
        if not self._calls or len(ends) < len(self._sums):
            return (), []
        last = (self._calls, self._unanswered, tuple(self._sums))
        points = [*(point for point in self._points if point[0] < self._calls), last]
        rest = [end - total for end, total in zip(ends, self._sums, strict=True)]
        costs = [
            tuple(
                sums[n] + more * unanswered // (self._unanswered or 1)
                for _, unanswered, sums in points
            )
            for n, more in enumerate(rest)
        ]
        return tuple(point[0] for point in points), costs


def sum_of(features: Iterable[FeatureTotals]) -> Sequence[VariantTotals]:
    """The totals of all these features, one for each way; empty where there are none."""
    ways: list[VariantTotals] = []
    for feature in features:
        ways = ways or [VariantTotals() for _ in feature.ways]
        for way, more in zip(ways, feature.ways, strict=True):
            way.include(more)
    return ways
