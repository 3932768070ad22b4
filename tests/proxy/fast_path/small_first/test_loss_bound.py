"""The bound holds for any losses, at every moment, in more than 19 of 20 runs."""

from math import exp
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.small_first.judge_channel import LOSSES, JudgeError, Verdict
from proxy.fast_path.small_first.loss_bound import RATES, LossBound, call_costs

errors = st.floats(0, 0.4)
TENTH = JudgeError(0.1, 0.1)


@given(errors, errors, st.booleans(), st.floats(0.05, 1), st.floats(-0.2, 0.5))
def test_mean_factor_of_every_loss_is_at_most_one(low, high, both, probability, guess):
    error = JudgeError(min(low, high), max(low, high), both)
    costs = call_costs(error, probability, guess)

    for channel in error.channels:
        for row, loss in zip(channel, LOSSES, strict=True):
            for index, rate in enumerate(RATES):
                judged = sum(
                    share * exp(-costs.of(verdict)[index])
                    for share, verdict in zip(row, Verdict, strict=True)
                )
                mean = probability * judged + (1 - probability) * exp(-costs.unjudged[index])
                assert exp(rate * loss) * mean <= 1 + 1e-6


def test_bound_without_errors_grows_by_each_loss():
    bound = LossBound()
    before = bound.upper()
    costs = call_costs(JudgeError(0, 0), 1.0, 0.0)

    for _ in range(200):
        bound.add(costs.of(Verdict.WORSE))

    assert bound.upper() == pytest.approx(before + 200)


def test_call_judged_worse_raises_the_bound_by_more_than_one_judged_equal():
    costs = call_costs(TENTH, 0.5, 0.1)
    bounds = {verdict: LossBound() for verdict in Verdict}
    for verdict, bound in bounds.items():
        bound.add(costs.of(verdict))

    assert bounds[Verdict.BETTER].upper() < bounds[Verdict.EQUAL].upper()
    assert bounds[Verdict.EQUAL].upper() < bounds[Verdict.WORSE].upper()


def _breaks(seed, loss_of, probability):
    """True if the bound is ever below the losses of a run of calls."""
    rng = Random(seed)  # noqa: S311 - seeded
    bound, lost = LossBound(), 0
    costs = call_costs(TENTH, probability, 0.05)
    for number in range(300):
        loss = loss_of(number, rng)
        lost += loss
        if rng.random() < probability:
            others = [verdict for verdict in Verdict if verdict != loss]
            is_wrong = rng.random() < 0.1
            bound.add(costs.of(rng.choice(others) if is_wrong else Verdict(loss)))
        else:
            bound.add(costs.unjudged)
        if lost > bound.upper():
            return True
    return False


@pytest.mark.parametrize("probability", [1.0, 0.3])
@pytest.mark.parametrize(
    "loss_of",
    [
        lambda number, rng: int(rng.random() < 0.1),
        lambda number, rng: 1,
        lambda number, rng: int(number > 150),
    ],
    ids=["one in ten", "every call", "every call after a drift"],
)
def test_bound_is_broken_in_less_than_one_of_twenty_runs(loss_of, probability):
    broken = sum(_breaks(seed, loss_of, probability) for seed in range(100))

    assert broken <= 12  # a chance of 1 in 1,000 at five of 100
