"""Learns from checked pairs how likely a candidate's answer is right.

Logistic regression that is brought up to date pair by pair: weights with their covariance, one
step of Newton's method a pair (an extended Kalman filter). A pair's score is always taken before
the pair is learnt from, so scores are of pairs never seen, and no data has to be set apart.
Source: Murphy, Machine Learning: A Probabilistic Perspective (2012), section 8.5.
"""

from math import exp
from typing import Final

import msgspec

#: Variance of a weight before anything was learnt.
_PRIOR_VARIANCE: Final = 25.0
_MAX_LOGIT: Final = 30.0


class Verifier(msgspec.Struct):
    """Weights of the measures of a candidate, with their covariance by rows."""

    weights: list[float]
    covariance: list[list[float]]

    def score(self, measures: tuple[float, ...]) -> float:
        """The logit of the probability that a candidate's answer is right."""
        logit = sum(weight * value for weight, value in zip(self.weights, measures, strict=True))
        return max(-_MAX_LOGIT, min(_MAX_LOGIT, logit))

    def probability(self, measures: tuple[float, ...]) -> float:
        """The probability that a candidate's answer is right, 0 to 1."""
        return 1.0 / (1.0 + exp(-self.score(measures)))

    def learn(self, measures: tuple[float, ...], *, was_right: bool) -> None:
        """Brings the weights up to date by one checked pair."""
        probability = self.probability(measures)
        curvature = max(probability * (1.0 - probability), 1e-6)
        direction = [
            sum(row[place] * value for place, value in enumerate(measures))
            for row in self.covariance
        ]
        spread = sum(value * along for value, along in zip(measures, direction, strict=True))
        gain = 1.0 / (1.0 + curvature * spread)
        step = (float(was_right) - probability) * gain
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
