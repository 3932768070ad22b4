from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from slo.retries import MIN_RETRIES, RETRY_PERCENT, RETRY_WINDOW_S, RetryBudget

NOW = 1_000.0


def spent(budget: RetryBudget, now: float) -> int:
    """Number of retries are allowed one after the other."""
    return sum(budget.try_acquire(now) for _ in range(1000))


def test_without_calls_a_few_retries_are_allowed():
    assert spent(RetryBudget(), NOW) == MIN_RETRIES


def test_with_many_calls_a_fifth_of_them_may_be_retried():
    budget = RetryBudget()
    for _ in range(100):
        budget.record_call(NOW)

    assert spent(budget, NOW) == 20


def test_what_was_retried_is_forgotten_with_its_calls():
    budget = RetryBudget()
    for _ in range(100):
        budget.record_call(NOW)
    spent(budget, NOW)

    assert not budget.try_acquire(NOW + RETRY_WINDOW_S - 1.1)
    assert spent(budget, NOW + RETRY_WINDOW_S) == MIN_RETRIES


def test_the_share_and_the_least_are_the_owners():
    budget = RetryBudget(percent=50, least=0)

    assert not budget.try_acquire(NOW)
    for _ in range(4):
        budget.record_call(NOW)
    assert spent(budget, NOW) == 2


def test_a_clock_that_stands_still_gives_nothing_back_and_one_that_goes_back_loses_nothing():
    budget = RetryBudget()
    assert spent(budget, NOW) == MIN_RETRIES

    assert not budget.try_acquire(NOW)
    assert not budget.try_acquire(NOW - 5)
    assert spent(budget, NOW - 1000) == MIN_RETRIES


class Retrying(RuleBasedStateMachine):
    """An outage: calls and retries as they come, against a list of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = RetryBudget()
        self.now = NOW
        self.calls: deque[float] = deque()
        self.retries: deque[float] = deque()

    @rule(seconds=st.floats(min_value=0, max_value=4), calls=st.integers(0, 30))
    def pass_by(self, seconds: float, calls: int) -> None:
        self.now += seconds
        for _ in range(calls):
            self.budget.record_call(self.now)
            self.calls.append(self.now)

    @rule(tries=st.integers(1, 20))
    def retry(self, tries: int) -> None:
        for _ in range(tries):
            if self.budget.try_acquire(self.now):
                self.retries.append(self.now)
                oldest = self.now - RETRY_WINDOW_S
                calls = sum(at > oldest for at in self.calls)
                retries = sum(at > oldest + RETRY_WINDOW_S / 10 for at in self.retries)
                assert retries <= max(MIN_RETRIES, calls * RETRY_PERCENT / 100)


TestRetrying = Retrying.TestCase
TestRetrying.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
