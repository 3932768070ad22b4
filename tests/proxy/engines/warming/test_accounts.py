"""The limits of warming, and the gain that is reported of it."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.warming.accounts import TokenBudget


def test_a_budget_is_taken_from_until_nothing_is_left_and_fills_up_again():
    budget = TokenBudget(600)

    assert budget.take(600, 100.0)
    assert not budget.take(1, 100.0)
    assert budget.take(10, 101.0)
    assert not budget.take(1, 101.0)
    assert budget.take(600, 1_000.0)
    assert not budget.take(601, 9_000.0)


def test_tokens_used_take_the_place_of_the_estimate():
    budget = TokenBudget(600)
    assert budget.take(100, 0.0)
    budget.correct(100, 700)
    assert not budget.take(1, 0.0)
    assert not budget.take(1, 10.0)
    assert budget.take(50, 16.0)

    budget = TokenBudget(600)
    assert budget.take(500, 0.0)
    budget.correct(500, 0)
    assert budget.take(600, 0.0)
    budget.correct(600, 0)
    budget.correct(600, 0)
    assert not budget.take(601, 0.0)


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 30)), max_size=40))
def test_no_minute_has_more_than_twice_the_budget(takes: list[tuple[int, float]]):
    budget, now, amounts = TokenBudget(60), 0.0, []
    for tokens, wait in takes:
        now += wait
        if budget.take(tokens, now):
            amounts.append((now, tokens))

    for start, _ in amounts:
        assert sum(tokens for at, tokens in amounts if start <= at < start + 60.0) <= 120
