"""Trials of ceilings and objectives: calls that missed them, and the step that had helped."""

from typing import Any

import pytest

from slo.budgets.ceiling import Ceiling, CeilingStep
from slo.objectives.objective import Metric, Objective
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.trials.feature_trials import CeilingTrial, try_ceiling, try_objective
from slo.trials.past_call import PastCall
from slo.usage import Usage
from tests.fakes.past_calls import CENT, a_past_call


def a_tariff(input_nanos: int, output_nanos: int) -> Tariff:
    """Prices in nano-dollars a million tokens."""
    rates = TokenRates(input=input_nanos, output=output_nanos)
    return Tariff(periods=(PricePeriod(since=0.0, sheets={"": PriceSheet(rates=rates)}),))


#: A token of input or output costs a hundredth of a cent, and a tenth of that on the other.
TARIFFS = {
    "large": a_tariff(CENT * 10_000, CENT * 10_000),
    "small": a_tariff(CENT * 1_000, CENT * 1_000),
}
LIMIT = 5 * CENT


def a_call(prompt: int, output: int, **more: Any) -> PastCall:
    usage = Usage(input=prompt, output=output)
    cost = (prompt + output) * CENT // 100
    return a_past_call(model="large", usage=usage, cost_nanos=cost, **more)


def trial_of(*calls: PastCall, **fields: Any) -> CeilingTrial:
    usual = {"name": "five", "limit": LIMIT, "cheaper": ("small",)}
    return try_ceiling(Ceiling(**{**usual, **fields}), calls, TARIFFS)


def steps(trial: CeilingTrial) -> dict[str, int]:
    return {step: sums.calls for step, sums in trial.by_step.items()}


def test_calls_within_the_limit_are_not_above_it() -> None:
    trial = trial_of(a_call(100, 400), a_call(101, 400))

    assert (trial.counted.calls, trial.above.calls, trial.excess_nanos) == (2, 1, CENT // 100)


def test_a_long_answer_is_clamped_and_a_long_prompt_goes_to_a_cheaper_model() -> None:
    trial = trial_of(a_call(300, 600), a_call(3_000, 100), a_call(60_000, 100))

    assert steps(trial) == {"clamp": 1, "cheaper": 1, "refuse": 1}


def test_a_ceiling_that_only_measures_lets_calls_pass() -> None:
    assert steps(trial_of(a_call(3_000, 100), on_exceed=())) == {"passes": 1}


def test_models_of_unknown_price_are_no_help() -> None:
    call = a_call(3_000, 100)
    on_exceed = (CeilingStep.CHEAPER, CeilingStep.REFUSE)

    assert steps(trial_of(call, cheaper=("other",), on_exceed=on_exceed)) == {"refuse": 1}


def test_calls_of_other_features_and_of_unknown_price_are_told_apart() -> None:
    calls = [a_call(3_000, 100, feature="search"), a_past_call(cost_nanos=None)]
    trial = trial_of(*calls, feature="chat")

    assert (trial.counted.calls, trial.above.calls, trial.unpriced) == (1, 0, 1)


TTFT = Objective(name="fast", metric=Metric.TTFT, target=0.9, under=0.5)


def test_slow_calls_miss_a_limit_of_time() -> None:
    calls = [a_past_call(ttft=0.2), a_past_call(ttft=0.6), a_past_call(ttft=0.3)]
    trial = try_objective(TTFT, calls)

    assert (trial.calls, trial.good, trial.bad) == (3, 2, 1)
    assert trial.burn == pytest.approx(1 / 3 / 0.1)


def test_calls_of_other_features_do_not_count() -> None:
    objective = Objective(name="e", feature="chat", metric=Metric.ERRORS, target=0.99)
    calls = [a_past_call(failed=True), a_past_call(feature="search", failed=True)]

    assert try_objective(objective, calls).calls == 1


def test_a_cache_floor_counts_tokens() -> None:
    floor = Objective(name="cache", metric=Metric.CACHE, target=0.5, min_prompt=1)
    calls = [a_past_call(first_turn=False, prompt_tokens=1_000, cache_read=750)]
    trial = try_objective(floor, calls)

    assert (trial.good, trial.bad, trial.burn) == (750, 250, 0.5)


def test_a_day_without_calls_burns_nothing() -> None:
    assert try_objective(TTFT, []).burn is None
