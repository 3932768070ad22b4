"""Learns from checked pairs how likely a candidate's answer is right.

Logistic regression that is brought up to date pair by pair: weights with their covariance, one
step of Newton's method a pair (an extended Kalman filter). Each answer has a weight of its own,
too, as some answers are mistaken for others more often than all measures tell. A pair's score is
always taken before the pair is learnt from, so scores are of pairs never seen.
Source: Murphy, Machine Learning: A Probabilistic Perspective (2012), section 8.5.
"""

from math import exp
from typing import Final

import msgspec

#: Variance of a weight before anything was learnt, and of an answer's own weight.
_PRIOR_VARIANCE: Final = 25.0
_ANSWER_VARIANCE: Final = 1.0
#: Answers that have a weight of their own; the one unused for longest goes first.
_MAX_ANSWERS: Final = 1_000
_MAX_LOGIT: Final = 30.0


class Verifier(msgspec.Struct):
    """Weights of the measures of a candidate, with their covariance by rows.

    Attributes:
        answers: Weight of an answer and its variance, by digest.
    """

    weights: list[float]
    covariance: list[list[float]]
    answers: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)

    def score(self, measures: tuple[float, ...], answer: str) -> float:
        """The logit of the probability that a candidate's answer is right."""
        logit = sum(weight * value for weight, value in zip(self.weights, measures, strict=True))
        logit += self.answers.get(answer, (0.0, 0.0))[0]
        return max(-_MAX_LOGIT, min(_MAX_LOGIT, logit))

    def probability(self, measures: tuple[float, ...], answer: str) -> float:
        """The probability that a candidate's answer is right, 0 to 1."""
        return 1.0 / (1.0 + exp(-self.score(measures, answer)))

    def learn(self, measures: tuple[float, ...], answer: str, *, was_right: bool) -> None:
        """Brings the weights up to date by one checked pair."""
        probability = self.probability(measures, answer)
        curvature = max(probability * (1.0 - probability), 1e-6)
        direction = [
            sum(row[place] * value for place, value in enumerate(measures))
            for row in self.covariance
        ]
        own, variance = self.answers.pop(answer, (0.0, _ANSWER_VARIANCE))
        spread = sum(value * along for value, along in zip(measures, direction, strict=True))
        gain = 1.0 / (1.0 + curvature * (spread + variance))
        step = (float(was_right) - probability) * gain
        self.answers[answer] = own + step * variance, variance - curvature * gain * variance**2
        if len(self.answers) > _MAX_ANSWERS:
            del self.answers[next(iter(self.answers))]
        for place, along in enumerate(direction):
            self.weights[place] += step * along
            factor = curvature * gain * along
            row = self.covariance[place]
            for other, across in enumerate(direction):
                row[other] -= factor * across


def untrained_verifier(measures: int) -> Verifier:
    """A verifier that knows nothing: every candidate is as likely right as wrong."""
    return Verifier(
        weights=[0.0] * measures,
        covariance=[
            [_PRIOR_VARIANCE if row == column else 0.0 for column in range(measures)]
            for row in range(measures)
        ],
    )
