from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from slo.budgets.attempt_budgets import (
    HedgeBudget,
    RecentTtft,
    RetryBudget,
    hedge_delay_s,
    may_begin_sooner,
)
from tests.examples import examples

HEDGE_WINDOW_S = 300.0
MIN_RETRIES = 3
RECENT_TTFT_WINDOW_S = 60.0
RETRY_PERCENT = 20
RETRY_WINDOW_S = 10.0

NOW = 10_000.0
CENT = 10_000_000


def record_calls(
    budget: HedgeBudget, calls: int, nanos: int | None = CENT, now: float = NOW
) -> None:
    for _ in range(calls):
        budget.record_call(nanos, now)


def test_the_first_hedge_needs_twenty_calls_before_it():
    budget = HedgeBudget()

    record_calls(budget, 19, None)
    assert not budget.try_acquire(None, NOW)
    record_calls(budget, 1, None)
    assert budget.try_acquire(None, NOW)
    assert not budget.try_acquire(None, NOW)


def test_hedges_are_at_most_a_twentieth_of_the_calls():
    budget = HedgeBudget()
    record_calls(budget, 199)

    assert sum(budget.try_acquire(0, NOW) for _ in range(200)) == 9


def test_hedges_cost_at_most_three_hundredths_of_what_the_calls_did():
    budget = HedgeBudget()
    record_calls(budget, 100)

    assert not budget.try_acquire(3 * CENT + 1, NOW)
    assert budget.try_acquire(2 * CENT, NOW)
    assert not budget.try_acquire(CENT + 1, NOW)
    assert budget.try_acquire(CENT, NOW)
    assert not budget.try_acquire(1, NOW)
    assert budget.try_acquire(0, NOW)


def test_a_hedge_of_unknown_price_is_held_to_the_share_of_calls_alone():
    budget = HedgeBudget()
    record_calls(budget, 40)

    assert budget.try_acquire(None, NOW)
    assert budget.try_acquire(None, NOW)
    assert not budget.try_acquire(None, NOW)


def test_calls_of_unknown_price_allow_no_hedge_that_costs():
    budget = HedgeBudget()
    record_calls(budget, 100, None)

    assert not budget.try_acquire(1, NOW)
    assert budget.try_acquire(None, NOW)


def test_the_unused_part_of_a_hedges_prediction_may_be_spent_on_another():
    budget = HedgeBudget()
    record_calls(budget, 100)
    assert budget.try_acquire(3 * CENT, NOW)
    assert not budget.try_acquire(2 * CENT, NOW)

    budget.settle_hedge(CENT, 3 * CENT, NOW)

    assert budget.try_acquire(2 * CENT, NOW)


def test_the_excess_over_a_hedges_prediction_is_taken_from_the_next():
    budget = HedgeBudget()
    record_calls(budget, 100)
    assert budget.try_acquire(None, NOW)

    budget.settle_hedge(3 * CENT, None, NOW)

    assert not budget.try_acquire(1, NOW)


def test_a_hedge_whose_cost_stays_unknown_counts_as_predicted():
    budget = HedgeBudget()
    record_calls(budget, 100)
    assert budget.try_acquire(3 * CENT, NOW)

    budget.settle_hedge(None, 3 * CENT, NOW)

    assert not budget.try_acquire(1, NOW)


def test_a_correction_that_outlives_its_prediction_allows_no_more_than_the_share():
    budget = HedgeBudget()
    record_calls(budget, 100)
    assert budget.try_acquire(3 * CENT, NOW)
    later = NOW + HEDGE_WINDOW_S + 1
    record_calls(budget, 100, CENT, later)

    budget.settle_hedge(0, 3 * CENT, later)

    assert not budget.try_acquire(3 * CENT + 1, later)
    assert budget.try_acquire(3 * CENT, later)


def test_calls_and_hedges_are_forgotten_after_five_minutes():
    budget = HedgeBudget()
    record_calls(budget, 100)
    assert sum(budget.try_acquire(None, NOW) for _ in range(10)) == 5

    record_calls(budget, 20, CENT, NOW + HEDGE_WINDOW_S)
    assert budget.try_acquire(0, NOW + HEDGE_WINDOW_S)


def test_calls_and_costs_that_are_forgotten_allow_no_hedge():
    budget = HedgeBudget()
    record_calls(budget, 100)
    assert not budget.try_acquire(None, NOW + HEDGE_WINDOW_S)

    record_calls(budget, 100, None, NOW + HEDGE_WINDOW_S)
    assert not budget.try_acquire(1, NOW + HEDGE_WINDOW_S)


def test_the_shares_are_the_owners():
    budget = HedgeBudget(percent=50, percent_of_cost=10)
    record_calls(budget, 2)

    assert not budget.try_acquire(CENT, NOW)
    assert budget.try_acquire(CENT // 5, NOW)


def test_a_clock_that_goes_back_allows_no_more():
    budget = HedgeBudget()
    record_calls(budget, 20)
    assert budget.try_acquire(0, NOW)

    assert not budget.try_acquire(0, NOW - 10)
    assert not budget.try_acquire(0, NOW - 2 * HEDGE_WINDOW_S)


def test_a_call_is_late_after_six_tenths_of_its_deadline():
    assert hedge_delay_s(10.0) == pytest.approx(6.0)


class HedgeMachine(RuleBasedStateMachine):
    """Calls and hedges as they come, against lists of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = HedgeBudget()
        self.now = NOW
        self.calls: list[tuple[float, int]] = []
        self.hedges: list[tuple[float, int]] = []

    @rule(
        seconds=st.floats(min_value=0, max_value=120),
        calls=st.integers(0, 60),
        nanos=st.none() | st.integers(0, CENT),
    )
    def pass_by(self, seconds: float, calls: int, nanos: int | None) -> None:
        self.now += seconds
        for _ in range(calls):
            self.budget.record_call(nanos, self.now)
            self.calls.append((self.now, nanos or 0))

    @rule(predicted=st.none() | st.integers(0, 3 * CENT), cost=st.none() | st.integers(0, CENT))
    def hedge(self, predicted: int | None, cost: int | None) -> None:
        if not self.budget.try_acquire(predicted, self.now):
            return
        self.hedges.append((self.now, predicted or 0))
        calls = [nanos for time, nanos in self.calls if time > self.now - HEDGE_WINDOW_S]
        recent = [nanos for time, nanos in self.hedges if time > self.now - HEDGE_WINDOW_S * 0.9]
        assert len(recent) * 100 <= len(calls) * 5
        if predicted:
            assert sum(recent) * 100 <= sum(calls) * 3
        if cost is not None:
            self.budget.settle_hedge(cost, predicted, self.now)
            self.hedges[-1] = (self.now, cost)


TestHedging = HedgeMachine.TestCase
TestHedging.settings = examples(30, stateful_step_count=30, deadline=None)


def test_a_routes_usual_time_to_first_token_is_the_median_of_its_latest_calls():
    ttft = RecentTtft()
    for seconds in (0.2, 0.3):
        ttft.record(seconds, NOW)
    assert ttft.median(NOW) is None

    ttft.record(float("inf"), NOW)
    assert ttft.median(NOW) == 0.3
    assert ttft.median(NOW + 59.9) == 0.3
    assert ttft.median(NOW + RECENT_TTFT_WINDOW_S) is None


def test_a_routes_newest_times_show_at_once_that_it_recovered():
    ttft = RecentTtft()
    for seconds in [9.0] * 9 + [0.2, 0.3]:
        ttft.record(seconds, NOW)
    assert ttft.newest(NOW) == 0.3
    assert ttft.median(NOW) == 9.0
    assert RecentTtft().newest(NOW) is None
    assert ttft.newest(NOW + RECENT_TTFT_WINDOW_S) is None


def test_a_route_that_became_silent_shows_at_once_and_one_that_recovered_later():
    ttft, recovered = RecentTtft(), RecentTtft()
    for seconds in [0.5] * 9 + [float("inf")] * 2:
        ttft.record(seconds, NOW)
    for seconds in [9.0] * 9 + [0.2] * 3:
        recovered.record(seconds, NOW)

    assert (ttft.median(NOW), ttft.usual(NOW)) == (0.5, float("inf"))
    assert (recovered.newest(NOW), recovered.usual(NOW)) == (0.2, 9.0)
    assert RecentTtft().usual(NOW) is None


def test_the_newest_call_alone_shows_that_a_route_begins_again():
    ttft = RecentTtft()
    assert ttft.last(NOW) is None
    for seconds in [float("inf")] * 9 + [0.2]:
        ttft.record(seconds, NOW)

    assert (ttft.last(NOW), ttft.usual(NOW)) == (0.2, float("inf"))
    assert ttft.last(NOW + RECENT_TTFT_WINDOW_S) is None


def test_a_silent_route_is_probed_every_two_seconds_whatever_the_clock_does():
    ttft = RecentTtft()

    assert [ttft.try_probe(NOW + after) for after in (0, 1, 1.9, 2, 3, -100, 4)] == [
        True, False, False, True, False, True, True,
    ]  # fmt: skip


def test_an_assumed_time_counts_until_a_call_of_the_routes_own_is_known():
    ttft = RecentTtft()
    for _ in range(3):
        ttft.assume(0.5, NOW)
    assert (ttft.median(NOW), ttft.usual(NOW), ttft.newest(NOW)) == (0.5, 0.5, None)

    ttft.record(float("inf"), NOW)
    assert ttft.median(NOW) is None


@pytest.mark.parametrize(
    ("there", "here", "waited", "is_sooner"),
    [
        (None, 0.8, 1.0, True),  # unknown
        (0.2, 0.2, 0.6, True),  # usually in time
        (0.8, None, 1.0, True),
        (0.8, 0.8, 1.0, False),  # as slow
        (0.8, 0.8, 1.6, True),  # the first is late by its own measure, too
        (0.8, 4.0, 1.0, True),  # slow, and the first is slower still
        (float("inf"), float("inf"), 1.9, False),  # both are silent
        (float("inf"), float("inf"), 2.0, True),  # what is known of the other one is old
    ],
)
def test_no_second_attempt_goes_to_a_route_known_to_be_as_slow(there, here, waited, is_sooner):
    assert may_begin_sooner(there, here, waited=waited, deadline=1.0) is is_sooner


def retries_allowed(budget: RetryBudget, now: float) -> int:
    """Number of retries that are allowed one after the other."""
    return sum(budget.try_acquire(now) for _ in range(1000))


def test_without_calls_a_few_retries_are_allowed():
    assert retries_allowed(RetryBudget(), NOW) == MIN_RETRIES


def test_with_many_calls_a_fifth_of_them_may_be_retried():
    budget = RetryBudget()
    for _ in range(100):
        budget.record_call(NOW)

    assert retries_allowed(budget, NOW) == 20


def test_retries_are_forgotten_with_their_calls():
    budget = RetryBudget()
    for _ in range(100):
        budget.record_call(NOW)
    retries_allowed(budget, NOW)

    assert not budget.try_acquire(NOW + RETRY_WINDOW_S - 1.1)
    assert retries_allowed(budget, NOW + RETRY_WINDOW_S) == MIN_RETRIES


def test_the_share_and_the_least_of_retries_are_the_owners():
    budget = RetryBudget(percent=50, least=0)

    assert not budget.try_acquire(NOW)
    for _ in range(4):
        budget.record_call(NOW)
    assert retries_allowed(budget, NOW) == 2


def test_a_clock_that_stands_still_gives_no_retry_back_and_one_that_goes_back_loses_nothing():
    budget = RetryBudget()
    assert retries_allowed(budget, NOW) == MIN_RETRIES

    assert not budget.try_acquire(NOW)
    assert not budget.try_acquire(NOW - 5)
    assert retries_allowed(budget, NOW - 1000) == MIN_RETRIES


class RetryMachine(RuleBasedStateMachine):
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
                calls = sum(time > oldest for time in self.calls)
                retries = sum(time > oldest + RETRY_WINDOW_S / 10 for time in self.retries)
                assert retries <= max(MIN_RETRIES, calls * RETRY_PERCENT / 100)


TestRetrying = RetryMachine.TestCase
TestRetrying.settings = examples(30, stateful_step_count=30, deadline=None)


def test_the_median_of_a_route_is_that_of_its_latest_32_calls():
    ttft = RecentTtft()
    for seconds in [9.0] * 17 + [1.0] * 15:
        ttft.record(seconds, NOW)
    assert ttft.median(NOW) == 9.0

    ttft.record(1.0, NOW)
    ttft.record(1.0, NOW)

    assert ttft.median(NOW) == 1.0
