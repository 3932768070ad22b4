"""Plans how many calls go to the small model and what share of them is judged.

The plan looks some calls ahead: with the predictions of the newest calls as those to come, it takes
the most calls, lowest prediction first, whose losses and noise keep the bound below what may be
lost by then. Judging fewer of them pays for more calls, and widens the bound by more for each.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from math import log
from typing import Final

import msgspec

from proxy.fast_path.small_first.judge_channel import Channel, JudgeError
from proxy.fast_path.small_first.loss_bound import RATES, CallCosts, LossBound, call_costs

#: Shares of calls sent small that may be judged.
PROBABILITIES: Final = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.13, 0.1, 0.05)
#: Share of judgements that calls sent small may take; the others are for learning.
PROVING_SHARE: Final = 0.9
#: Calls over which unused loss is spent.
HORIZON_CALLS: Final = 1_000
#: Points of the ordered predictions at which a plan may end.
_STEPS: Final = 40


class SpendingPlan(msgspec.Struct, frozen=True):
    """A plan for the next calls.

    Attributes:
        threshold: The highest predicted loss at which a call goes small.
        share: The share of calls that then do.
        probability: The share of them that is judged.
    """

    threshold: float = -1.0
    share: float = 0.0
    probability: float = 1.0


class Prospect(msgspec.Struct, frozen=True):
    """The state that a plan is made for.

    Attributes:
        allowance: Answers that may be lost by the end of the horizon.
        judged_share: Calls that may be judged.
        better: Share of small answers that are better than the large model's.
    """

    bound: LossBound
    error: JudgeError
    allowance: float
    judged_share: float
    better: float


def plan_spending(prospect: Prospect, predictions: Iterable[float]) -> SpendingPlan:
    """The plan that sends most calls small.

    Args:
        predictions: Predicted losses of the newest calls.
    """
    ordered = sorted(predictions)
    sums = (0.0, *accumulate(max(predicted, 0.0) for predicted in ordered))
    scale = HORIZON_CALLS / len(ordered)
    limit = log(len(RATES) / (1 - prospect.bound.confidence))
    budgets = [
        rate * prospect.allowance - limit - total
        for rate, total in zip(RATES, prospect.bound.totals, strict=True)
    ]
    best, chosen = 0, 1.0
    for probability in PROBABILITIES:
        share = min(PROVING_SHARE * prospect.judged_share / probability, 1.0)
        ends = _ends(best, int(share * len(ordered)))
        growth = _growth(prospect.error, probability, round(prospect.better, 2))
        for (slope, noise), budget in zip(growth, budgets, strict=True):
            taken = _affordable(ends, sums, (slope * scale, noise * scale), budget)
            if taken > best:
                best, chosen = taken, probability
    threshold = ordered[best - 1] if best else -1.0
    return SpendingPlan(threshold, best / len(ordered), chosen)


@lru_cache(maxsize=4_096)
def cached_costs(error: JudgeError, probability: float, guess: float) -> CallCosts:
    """The costs of a call, computed once."""
    return call_costs(error, probability, guess)


def _ends(least: int, most: int) -> Sequence[int]:
    """Some numbers of calls from the least to the most, the most among them."""
    step = max((most - least) // _STEPS, 1)
    return (*range(least + 1, most, step), most) if most > least else ()


def _affordable(
    ends: Sequence[int], sums: Sequence[float], costs: tuple[float, float], budget: float
) -> int:
    """The largest end whose calls a budget pays for; 0 where it pays for none."""
    slope, noise = costs
    paid = [end for end in ends if slope * sums[end] + noise * end <= budget]
    return paid[-1] if paid else 0


@lru_cache(maxsize=1_024)
def _growth(
    error: JudgeError, probability: float, better: float
) -> tuple[tuple[float, float], ...]:
    """By rate: the growth of the bound per predicted loss, and per call, at small losses."""
    channels = error.channels
    channel = channels[len(channels) // 2]
    none = _expected_costs(cached_costs(error, probability, 0.0), channel, probability, (better, 0))
    tenth = _expected_costs(
        cached_costs(error, probability, 0.1), channel, probability, (better, 0.1)
    )
    return tuple(((more - less) / 0.1, less) for more, less in zip(tenth, none, strict=True))


def _expected_costs(
    costs: CallCosts, channel: Channel, probability: float, losses: tuple[float, float]
) -> list[float]:
    """The mean costs of a call by rate, of which so many are better, and so many more worse."""
    better, more = losses
    truths = (better, 1 - 2 * better - more, better + more)
    verdicts = [
        sum(truth * row[verdict] for truth, row in zip(truths, channel, strict=True))
        for verdict in range(3)
    ]
    judged = [
        sum(share * cost for share, cost in zip(verdicts, by_rate, strict=True))
        for by_rate in zip(*costs.by_verdict, strict=True)
    ]
    return [
        probability * cost + (1 - probability) * unjudged
        for cost, unjudged in zip(judged, costs.unjudged, strict=True)
    ]
