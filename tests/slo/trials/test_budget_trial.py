"""Trials of budgets: calls beyond the limit, when the first came, and what counted before."""

from typing import Any

import pytest

from slo.budgets.budget import Budget, BudgetUnit, UnpricedPolicy
from slo.trials.budget_trial import try_budget
from slo.window import Window
from tests.fakes.past_calls import CENT, MIDNIGHT, a_past_call

HOUR = 3_600.0


def a_budget(**fields: Any) -> Budget:
    usual = {
        "name": "day",
        "scope": "team",
        "unit": BudgetUnit.USD,
        "window": Window.DAY,
        "limit": 2 * CENT,
    }
    return Budget(**{**usual, **fields})


def test_a_hard_budget_refuses_calls_from_when_they_do_not_fit() -> None:
    trial = try_budget(a_budget(), [a_past_call(hour * HOUR) for hour in range(5)], {})

    assert (trial.counted.calls, trial.beyond.calls, trial.beyond.nanos) == (5, 3, 3 * CENT)
    assert (trial.first, trial.first_whose) == (MIDNIGHT + 2 * HOUR, "acme")
    assert trial.most_used == 2 * CENT


def test_a_smaller_call_fits_after_a_larger_one_was_refused() -> None:
    calls = [a_past_call(), a_past_call(1, cost_nanos=5 * CENT), a_past_call(2)]

    assert try_budget(a_budget(), calls, {}).beyond.nanos == 5 * CENT


def test_a_budget_that_only_counts_goes_on_beyond_its_limit() -> None:
    trial = try_budget(a_budget(hard=False), [a_past_call(n) for n in range(4)], {})

    assert (trial.beyond.calls, trial.most_used) == (2, 4 * CENT)


def test_each_team_has_a_counter_of_its_own() -> None:
    calls = [a_past_call(n, team=team) for n in range(3) for team in ("acme", "other")]
    trial = try_budget(a_budget(), calls, {})

    assert (trial.counted.calls, trial.beyond.calls, trial.owners) == (6, 2, 2)


def test_calls_of_others_do_not_count() -> None:
    trial = try_budget(a_budget(of="acme"), [a_past_call(team="other")], {})

    assert trial.counted.calls == 0


def test_a_month_goes_on_from_what_was_used_before() -> None:
    trial = try_budget(a_budget(window=Window.MONTH), [a_past_call()], {"acme": 2 * CENT})

    assert (trial.beyond.calls, trial.first) == (1, MIDNIGHT)


def test_counters_begin_anew_with_each_window() -> None:
    calls = [a_past_call(hour * HOUR + n) for hour in range(3) for n in range(3)]
    trial = try_budget(a_budget(window=Window.HOUR), calls, {})

    assert trial.beyond.calls == 3


@pytest.mark.parametrize(("unit", "limit"), [(BudgetUnit.REQUESTS, 3), (BudgetUnit.TOKENS, 3_300)])
def test_requests_and_tokens_are_counted_as_such(unit: BudgetUnit, limit: int) -> None:
    trial = try_budget(a_budget(unit=unit, limit=limit), [a_past_call(n) for n in range(5)], {})

    assert (trial.beyond.calls, trial.most_used) == (2, limit)


@pytest.mark.parametrize(("unpriced", "beyond"), [("refuse", 1), ("allow", 0), ("own", 0)])
def test_calls_of_unknown_price_are_named_and_refused_where_the_budget_says_so(
    unpriced: str, beyond: int
) -> None:
    budget = a_budget(unpriced=UnpricedPolicy(unpriced))
    trial = try_budget(budget, [a_past_call(cost_nanos=None)], {})

    assert (trial.unpriced, trial.beyond.calls) == (1, beyond)
