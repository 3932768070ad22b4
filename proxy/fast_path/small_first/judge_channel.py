"""Verdicts on a small model's answers, and how often a judge's verdict is wrong.

A judge is a noisy channel: ``P(verdict | truth)``. Its errors are undone here exactly, so that
proofs hold for the truth and not for the verdicts. Assumed is that a wrong verdict does not depend
on the question; a judge that errs on purpose can hide as many losses as it has errors.
"""

from enum import IntEnum
from math import sqrt
from typing import Final

import msgspec

#: One-sided 95 % quantile of the normal distribution.
_Z95: Final = 1.645
#: At an error of 2/3 a verdict says nothing.
MAX_ERROR: Final = 0.4

#: A row for each truth, in order of verdicts: better, equal, worse.
Channel = tuple[tuple[float, float, float], ...]
Triple = tuple[float, float, float]


class Verdict(IntEnum):
    """The small model's answer beside the large one's; its value is the loss in answers."""

    BETTER = -1
    EQUAL = 0
    WORSE = 1


LOSSES: Final = tuple(verdict.value for verdict in Verdict)


class JudgeError(msgspec.Struct, frozen=True):
    """The share of verdicts that are wrong lies between these; a wrong one is either of the others.

    Attributes:
        both_orders: True if verdicts are those of ``combine_orders``, each order wrong so often.
    """

    low: float
    high: float
    both_orders: bool = False

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels of the lowest, middle and highest error; one where they are equal."""
        errors = sorted({self.low, (self.low + self.high) / 2, self.high})
        return tuple(_channel(error, both_orders=self.both_orders) for error in errors)


def combine_orders(first: Verdict, second: Verdict) -> Verdict:
    """The verdict of both orders of the answers: equal where they disagree."""
    return first if first == second else Verdict.EQUAL


def estimate_error(agreements: int, pairs: int, prior: float) -> JudgeError:
    """The error of one order, from how often both orders agree.

    Two orders that are wrong in a share e agree in ``(1-e)² + e²/2``. The prior counts as 20 pairs.
    """
    expected = (1 - prior) ** 2 + prior**2 / 2
    count = pairs + 20
    rate = (agreements + 20 * expected) / count
    spread = _Z95 * sqrt(max(rate * (1 - rate), 1 / count) / count)
    low, high = _error_of(min(rate + spread, 1.0)), _error_of(max(rate - spread, 0.0))
    return JudgeError(low=low, high=high, both_orders=True)


def undo(channel: Channel, targets: Triple) -> Triple:
    """The values by verdict whose expectation is each target by truth."""
    (a, b, c), (d, e, f), (g, h, i) = channel
    x, y, z = targets
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    return (
        (x * (e * i - f * h) - b * (y * i - f * z) + c * (y * h - e * z)) / determinant,
        (a * (y * i - f * z) - x * (d * i - f * g) + c * (d * z - y * g)) / determinant,
        (a * (e * z - y * h) - b * (d * z - y * g) + x * (d * h - e * g)) / determinant,
    )


def unbiased_loss(error: JudgeError, verdict: Verdict) -> float:
    """The loss that a verdict stands for, right on average: a verdict of worse is above 1."""
    channels = error.channels
    middle = channels[len(channels) // 2]
    return undo(middle, (-1.0, 0.0, 1.0))[verdict + 1]


def _channel(error: float, *, both_orders: bool) -> Channel:
    right, wrong = 1 - error, error / 2
    if not both_orders:
        return ((right, wrong, wrong), (wrong, right, wrong), (wrong, wrong, right))
    agree, astray = right**2, wrong**2
    tied = 1 - agree - astray
    # Equal is said by two agreeing orders and by any two that disagree.
    side = (agree, tied, astray)
    return (side, (astray, 1 - 2 * astray, astray), (side[2], side[1], side[0]))


def _error_of(agreement: float) -> float:
    """The error at which two orders agree so often; the smaller root of 1.5e² - 2e + 1 = rate."""
    root = 4 - 6 * (1 - agreement)
    error = (2 - sqrt(root)) / 3 if root > 0 else MAX_ERROR
    return min(max(error, 0.0), MAX_ERROR)
