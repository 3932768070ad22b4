"""Keeps the evidence of one feature: what checks taught, the proved point, and whether it holds.

Before a point is proved every call goes upstream, so each teaches at no cost: the candidate that
would have been served is compared with the answer that came. Later a share of the hits is checked,
and all that was not served.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from proxy.fast_path.similarity.candidates import MEASURES, SimilarAnswer
from proxy.fast_path.similarity.operating_point import (
    SCORES,
    DriftTest,
    OperatingPoint,
    proved_point,
)
from proxy.fast_path.similarity.verifier import Verifier, untrained_verifier

#: Share of hits that may be wrong where a feature says nothing else.
DEFAULT_PROMISE: Final = 0.005
#: Pairs from which the verifier learns before their scores count as evidence.
_WARM_UP_PAIRS: Final = 1_000


def _unproved_points() -> list[OperatingPoint]:
    """The points that are tested, the strictest first."""
    return [OperatingPoint(score) for score in SCORES]


class SimilarityEvidence(msgspec.Struct):
    """All that a feature has learnt of its checked pairs; what is stored of it.

    Attributes:
        promise: Share of hits that may be wrong.
        verifier: The weights by which a candidate is scored.
        points: The scores from which on answers may be served, the strictest first.
        learned: Checked pairs in all.
        checked_hits: Those of them that might have been served.
        wrong_hits: Those of these whose answer was wrong.
        drift: The test that stops serving.
        stops: Number of times that a drift has stopped serving.
    """

    promise: float
    verifier: Verifier
    points: list[OperatingPoint] = msgspec.field(default_factory=_unproved_points)
    learned: int = 0
    checked_hits: int = 0
    wrong_hits: int = 0
    drift: DriftTest = msgspec.field(default_factory=DriftTest)
    stops: int = 0

    @property
    def served_point(self) -> OperatingPoint | None:
        """The point from which on answers are served; None where none is proved."""
        return proved_point(self.points, self.promise)

    def score(self, answer: SimilarAnswer) -> float:
        """The logit of the probability that an answer is right."""
        return self.verifier.score(answer.measures, answer.answered.answer_digest)

    def is_served(self, score: float) -> bool:
        """True where an answer of this score lies at or above the proved point."""
        point = self.served_point
        return point is not None and score >= point.score

    def checked_share(self, share: float) -> float:
        """The share of hits to check: as the feature says, or more at first and in doubt."""
        return self.drift.checked_share(share)

    def learn(self, answer: SimilarAnswer, *, was_right: bool, was_served: bool) -> bool:
        """Learns from a checked pair; returns true where this stopped serving.

        Args:
            answer: The candidate that was compared with the answer that came.
            was_right: Both answers were the same.
            was_served: The candidate might have been served, and this is its check.
        """
        score = self.score(answer)
        digest = answer.answered.answer_digest
        self.verifier.learn(answer.measures, digest, was_right=was_right)
        self.learned += 1
        if self.learned > _WARM_UP_PAIRS:
            for point in self.points:
                if score >= point.score:
                    point.observe(was_right=was_right)
        return was_served and self._observe_hit(was_right=was_right)

    def _observe_hit(self, *, was_right: bool) -> bool:
        """Counts a checked hit for drift; on a drift, the proof is void."""
        self.checked_hits += 1
        self.wrong_hits += not was_right
        if self.served_point is None or not self.drift.observe(self.promise, was_right=was_right):
            return False
        self.points = _unproved_points()
        self.drift = DriftTest()
        self.stops += 1
        return True


def no_evidence(promise: float = DEFAULT_PROMISE) -> SimilarityEvidence:
    """The state of a feature that has checked nothing: it serves nothing."""
    return SimilarityEvidence(promise, untrained_verifier(MEASURES))


def copy_of(evidence: SimilarityEvidence) -> SimilarityEvidence:
    """A copy that stays as it is while the feature goes on learning."""
    verifier = evidence.verifier
    return replace(
        evidence,
        verifier=replace(
            verifier,
            weights=[*verifier.weights],
            covariance=[[*row] for row in verifier.covariance],
            answers={**verifier.answers},
        ),
        points=[replace(point) for point in evidence.points],
        drift=replace(evidence.drift),
    )
