"""A bound on the answers lost by small models, valid at every moment at once.

Of the calls that went small a random part is judged. For each rate λ

::

    M(λ) = Π over calls sent small of  exp(λ·loss) · h(λ, verdict or none)

is a martingale of mean 1 for whatever losses come in whatever order, because ``h`` is chosen such
that its mean, over whether a call is judged and what a noisy judge then says, is ``exp(-λ·loss)``.
By Ville's inequality the mixture of several rates exceeds 20 with a probability below 5 %, ever;
the largest sum of losses for which it does not is the bound. Nothing is assumed of the losses: not
that they are alike, nor that they stay as they were; only of the judge (``judge_channel``) and that
calls are drawn for judging at random.
"""

from math import exp, log
from typing import Final

import msgspec

from proxy.fast_path.small_first.judge_channel import (
    LOSSES,
    Channel,
    JudgeError,
    Verdict,
    undo,
)

#: Each suits a time span: the larger, the earlier its bound is tight.
RATES: Final = (0.5, 0.25, 0.12, 0.06, 0.03)
#: No verdict may multiply the martingale by less than this, at a loss of 1.
_LEAST_FACTOR: Final = 0.1
_LEAST_UNJUDGED: Final = 0.3
_LEAST_VERDICT_FACTOR: Final = 0.05

Costs = tuple[float, ...]


class CallCosts(msgspec.Struct, frozen=True):
    """The logarithms by which the bound grows for a call sent small, by rate.

    Attributes:
        unjudged: Where it is not drawn for judging.
        by_verdict: Where it is, by verdict: better, equal, worse.
    """

    unjudged: Costs
    by_verdict: tuple[Costs, Costs, Costs]

    def of(self, verdict: Verdict) -> Costs:
        """The costs of a verdict."""
        return self.by_verdict[verdict + 1]


def call_costs(error: JudgeError, probability: float, guess: float) -> CallCosts:
    """The costs of a call that is judged with a probability.

    Args:
        guess: Its predicted loss, which an unjudged call counts as. A wrong one makes the bound
            wider, never invalid.
    """
    columns = [_costs_at(rate, error.channels, probability, guess) for rate in RATES]
    rows = list(zip(*columns, strict=True))
    return CallCosts(rows[0], (rows[1], rows[2], rows[3]))


def _costs_at(
    rate: float, channels: tuple[Channel, ...], probability: float, guess: float
) -> tuple[float, float, float, float]:
    """The costs at one rate: unjudged, then by verdict; valid for each of the channels."""
    targets = [exp(-rate * loss) for loss in LOSSES]
    unjudged = exp(-rate * guess) if probability < 1 else 1.0
    factors = _factors(targets, channels, probability, unjudged)
    while factors[2] < _LEAST_FACTOR * exp(-rate) and unjudged > _LEAST_UNJUDGED:
        unjudged *= 0.97  # a small share cannot carry so much
        factors = _factors(targets, channels, probability, unjudged)
    if factors[2] < _LEAST_VERDICT_FACTOR:
        return rate, rate, rate, rate  # the judge errs too often for this rate: a loss each time
    better, equal, worse = (-log(factor) for factor in factors)
    return -log(unjudged), better, equal, worse


def _factors(
    targets: list[float], channels: tuple[Channel, ...], probability: float, unjudged: float
) -> tuple[float, float, float]:
    """The factors by verdict whose mean is at most each target; the least over the channels."""
    rest = (1 - probability) * unjudged
    low, middle, high = ((target - rest) / probability for target in targets)
    undone = [undo(channel, (low, middle, high)) for channel in channels]
    return (
        min(factors[0] for factors in undone),
        min(factors[1] for factors in undone),
        min(factors[2] for factors in undone),
    )


class LossBound(msgspec.Struct):
    """The bound on the sum of losses so far.

    Attributes:
        confidence: That of the one-sided bound, over all time.
        totals: Sums of the costs of calls whose verdict is known or not awaited, by rate.
    """

    confidence: float = 0.95
    totals: list[float] = msgspec.field(default_factory=lambda: [0.0] * len(RATES))

    def add(self, costs: Costs) -> None:
        """Count a call's costs."""
        totals = self.totals
        for index, cost in enumerate(costs):
            totals[index] += cost

    def upper(self) -> float:
        """The largest sum of losses that is plausible."""
        limit = log(len(RATES) / (1 - self.confidence))
        return _mixture_bound(self.totals, limit)


def _mixture_bound(totals: list[float], limit: float) -> float:
    """The sum L at which ``Σ exp(λ·L - total)`` reaches ``exp(limit)``, by Newton's method.

    It is below each single rate's bound; begun at the least of those, the steps go down only, as
    the logarithm of such a sum is convex.
    """
    bound = min((limit + total) / rate for rate, total in zip(RATES, totals, strict=True))
    for _ in range(6):
        exponents = [rate * bound - total for rate, total in zip(RATES, totals, strict=True)]
        top = max(exponents)
        weights = [exp(exponent - top) for exponent in exponents]
        mass = sum(weights)
        excess = top + log(mass) - limit
        if excess < 1e-6:
            break
        slope = sum(rate * weight for rate, weight in zip(RATES, weights, strict=True)) / mass
        bound -= excess / slope
    return bound
