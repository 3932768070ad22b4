"""Keeps the evidence of one feature: what checks taught, the proved point, and whether it holds.

Before a point is proved every call goes upstream, so each teaches at no cost: the candidate that
would have been served is compared with the answer that came. Later a share of the hits is checked,
and all that was not served.
"""

from typing import Final

import msgspec

from proxy.fast_path.similarity.candidates import MEASURES, SimilarAnswer
from proxy.fast_path.similarity.operating_point import DriftTest, OperatingPoint, proved_point
from proxy.fast_path.similarity.verifier import Verifier, untrained_verifier

#: Share of hits that may be wrong where a feature says nothing else.
DEFAULT_PROMISE: Final = 0.005
#: Checked pairs kept; the oldest go first.
MAX_CHECKED_PAIRS: Final = 8_192
#: Pairs from which the verifier learns before their scores count as evidence.
_WARM_UP_PAIRS: Final = 250
#: Numbers of counted pairs at which a point is sought; these looks share the 5 percent.
_LOOKS: Final = (1_250, 1_900, 2_800, 4_200, 6_300, 8_192)


class SimilarityEvidence(msgspec.Struct):
    """All that a feature has learnt of its checked pairs; what is stored of it.

    Attributes:
        promise: Share of hits that may be wrong.
        verifier: The weights by which a candidate is scored.
        pairs: Score before learning and outcome of each checked pair, the latest last.
        learned: Checked pairs since the start or the last drift.
        point: The point from which on answers are served; None serves nothing.
        drift: The test that stops serving.
        stops: Number of times that a drift has stopped serving.
    """

    promise: float
    verifier: Verifier
    pairs: list[tuple[float, bool]]
    learned: int = 0
    point: OperatingPoint | None = None
    drift: DriftTest = msgspec.field(default_factory=DriftTest)
    stops: int = 0

    def score(self, answer: SimilarAnswer) -> float:
        """The logit of the probability that an answer is right."""
        return self.verifier.score(answer.measures)

    def is_served(self, score: float) -> bool:
        """True where an answer of this score lies at or above the proved point."""
        return self.point is not None and score >= self.point.score

    def checked_share(self, share: float) -> float:
        """The share of hits to check: as the feature says, and all of them after a wrong one."""
        return 1.0 if self.drift.is_alarmed else share

    def learn(self, answer: SimilarAnswer, *, was_right: bool, was_served: bool) -> bool:
        """Learns from a checked pair; returns true where this stopped serving.

        Args:
            answer: The candidate that was compared with the answer that came.
            was_right: Both answers were the same.
            was_served: The candidate had been served, and this is its check.
        """
        score = self.score(answer)
        self.verifier.learn(answer.measures, was_right=was_right)
        if was_served:
            return self._observe_hit(was_right=was_right)
        self.learned += 1
        if self.learned > _WARM_UP_PAIRS:
            self.pairs.append((score, was_right))
            del self.pairs[:-MAX_CHECKED_PAIRS]
            self._look()
        return False

    def _observe_hit(self, *, was_right: bool) -> bool:
        """Counts a checked hit for drift; on a drift, proof and its pairs are void."""
        if self.point is None or not self.drift.observe(self.promise, was_right=was_right):
            return False
        self.point = None
        self.pairs.clear()
        self.learned = _WARM_UP_PAIRS
        self.drift = DriftTest()
        self.stops += 1
        return True

    def _look(self) -> None:
        """Seeks an operating point where enough was checked for the next look."""
        if self.learned - _WARM_UP_PAIRS in _LOOKS:
            found = proved_point(self.pairs, self.promise, looks=len(_LOOKS))
            if found is not None and (self.point is None or found.checked > self.point.checked):
                self.point, self.drift = found, DriftTest()


def no_evidence(promise: float = DEFAULT_PROMISE) -> SimilarityEvidence:
    """The state of a feature that has checked nothing: it serves nothing."""
    return SimilarityEvidence(promise, untrained_verifier(MEASURES), [])


def encode_evidence(evidence: SimilarityEvidence) -> bytes:
    """A feature's evidence as it is stored."""
    return msgspec.msgpack.encode(evidence)


def decode_evidence(stored: bytes) -> SimilarityEvidence | None:
    """Stored evidence; None where it is of another version, so that all is learnt anew."""
    try:
        evidence = msgspec.msgpack.decode(stored, type=SimilarityEvidence)
    except msgspec.MsgspecError:
        return None
    fits = len(evidence.verifier.weights) == MEASURES == len(evidence.verifier.covariance)
    return evidence if fits else None
