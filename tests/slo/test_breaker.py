import pytest

from slo.breaker import (
    BASE_EJECTION_S,
    CONSECUTIVE_FAILURES,
    FAILURE_WINDOW_S,
    FORGIVE_EJECTION_AFTER_S,
    MAX_EJECTION_S,
    MIN_CALLS,
    PROBE_TIMEOUT_S,
    BreakerState,
    CircuitBreaker,
)
from slo.breaker import order_routes as order_of
from tests.slo.breaker_steps import NOW, fail, open_breaker


def test_a_new_breaker_is_closed_and_admits_every_call():
    breaker = CircuitBreaker()

    assert breaker.state(NOW) is BreakerState.CLOSED
    assert all(breaker.admits(NOW) for _ in range(100))
    assert breaker.seconds_until_admission(NOW) == 0


def test_five_failures_in_a_row_open_it_however_long_they_took():
    breaker = CircuitBreaker()
    for number in range(CONSECUTIVE_FAILURES - 1):
        fail(breaker, NOW + 1000 * number, 1)
    assert breaker.state(NOW + 5000) is BreakerState.CLOSED

    fail(breaker, NOW + 5000, 1)

    assert breaker.state(NOW + 5000) is BreakerState.OPEN
    assert not breaker.admits(NOW + 5000)
    assert breaker.seconds_until_admission(NOW + 5000) == BASE_EJECTION_S


def test_a_success_between_them_begins_the_row_anew_and_silence_does_not():
    breaker = CircuitBreaker()
    fail(breaker, NOW, CONSECUTIVE_FAILURES - 1)
    breaker.record_outcome(NOW, ok=True)
    fail(breaker, NOW, CONSECUTIVE_FAILURES - 1)
    assert breaker.state(NOW) is BreakerState.CLOSED

    breaker.record_outcome(NOW, ok=None)
    fail(breaker, NOW, 1)

    assert breaker.state(NOW) is BreakerState.OPEN


def alternate_outcomes(breaker: CircuitBreaker, calls: int, now: float) -> None:
    for number in range(calls):
        breaker.record_outcome(now, ok=number % 2 == 0)


def test_more_than_half_of_twenty_calls_open_it():
    breaker = CircuitBreaker()
    alternate_outcomes(breaker, MIN_CALLS, NOW)
    assert breaker.state(NOW) is BreakerState.CLOSED

    breaker.record_outcome(NOW, ok=False)

    assert breaker.state(NOW) is BreakerState.OPEN


def test_fewer_than_twenty_calls_have_no_share():
    breaker = CircuitBreaker()
    alternate_outcomes(breaker, MIN_CALLS - 2, NOW)
    breaker.record_outcome(NOW, ok=False)
    assert breaker.state(NOW) is BreakerState.CLOSED

    breaker.record_outcome(NOW, ok=False)

    assert breaker.state(NOW) is BreakerState.OPEN


def test_failures_before_a_breaker_closed_are_in_no_share():
    breaker = CircuitBreaker()
    alternate_outcomes(breaker, MIN_CALLS, NOW)
    breaker.record_outcome(NOW, ok=False)
    breaker.record_outcome(NOW + 2, ok=True, began=NOW + 1)
    assert breaker.state(NOW + 2) is BreakerState.CLOSED

    breaker.record_outcome(NOW + 2, ok=False)

    assert breaker.state(NOW + 2) is BreakerState.CLOSED


def test_failures_of_more_than_thirty_seconds_ago_are_in_no_share():
    breaker = CircuitBreaker()
    alternate_outcomes(breaker, MIN_CALLS, NOW)

    breaker.record_outcome(NOW + FAILURE_WINDOW_S, ok=False)

    assert breaker.state(NOW + FAILURE_WINDOW_S) is BreakerState.CLOSED


def test_half_open_it_admits_one_probe_at_a_time():
    breaker = open_breaker()
    assert breaker.state(NOW + BASE_EJECTION_S) is BreakerState.HALF_OPEN
    assert breaker.seconds_until_admission(NOW + BASE_EJECTION_S) == 0

    assert breaker.admits(NOW + BASE_EJECTION_S)
    assert not breaker.admits(NOW + BASE_EJECTION_S)
    assert breaker.seconds_until_admission(NOW + BASE_EJECTION_S + 1) == PROBE_TIMEOUT_S - 1


def test_a_probe_that_succeeds_closes_it_and_what_failed_before_is_forgotten():
    breaker = open_breaker()
    assert breaker.admits(NOW + BASE_EJECTION_S)

    breaker.record_outcome(NOW + BASE_EJECTION_S + 1, ok=True, began=NOW + BASE_EJECTION_S)

    assert breaker.state(NOW + BASE_EJECTION_S + 1) is BreakerState.CLOSED
    fail(breaker, NOW + BASE_EJECTION_S + 2, CONSECUTIVE_FAILURES - 1)
    assert breaker.state(NOW + BASE_EJECTION_S + 2) is BreakerState.CLOSED


def test_each_probe_that_fails_opens_it_for_longer_up_to_five_minutes():
    breaker, now, waits = open_breaker(), NOW, []
    for _ in range(12):
        now += breaker.seconds_until_admission(now)
        assert breaker.admits(now)
        breaker.record_outcome(now, ok=False)
        waits.append(breaker.seconds_until_admission(now))

    assert waits == [
        60,
        90,
        120,
        150,
        180,
        210,
        240,
        270,
        MAX_EJECTION_S,
        MAX_EJECTION_S,
        MAX_EJECTION_S,
        MAX_EJECTION_S,
    ]


@pytest.mark.parametrize("began", [None, NOW + BASE_EJECTION_S])
def test_a_probe_that_says_nothing_lets_the_next_one_go(began: float | None):
    breaker = open_breaker()
    assert breaker.admits(NOW + BASE_EJECTION_S)

    breaker.record_outcome(NOW + BASE_EJECTION_S + 1, ok=None, began=began)

    assert breaker.state(NOW + BASE_EJECTION_S + 1) is BreakerState.HALF_OPEN
    assert breaker.admits(NOW + BASE_EJECTION_S + 1)
    assert breaker.ejections == 1


def test_a_probe_that_does_not_end_gives_its_place_up_and_may_still_close_it():
    breaker = open_breaker()
    probe = NOW + BASE_EJECTION_S
    assert breaker.admits(probe)
    assert not breaker.admits(probe + PROBE_TIMEOUT_S - 1)
    assert breaker.admits(probe + PROBE_TIMEOUT_S)

    breaker.record_outcome(probe + PROBE_TIMEOUT_S + 1, ok=None, began=probe)
    assert not breaker.admits(probe + PROBE_TIMEOUT_S + 1)
    breaker.record_outcome(probe + PROBE_TIMEOUT_S + 2, ok=True, began=probe)
    assert breaker.state(probe + PROBE_TIMEOUT_S + 2) is BreakerState.CLOSED


def test_a_call_begun_before_a_breaker_opened_does_not_count_when_it_ends():
    breaker = open_breaker()
    breaker.record_outcome(NOW + 1, ok=True, began=NOW - 1)
    breaker.record_outcome(NOW + 1, ok=True, began=NOW)
    breaker.record_outcome(NOW + 1, ok=True)
    assert breaker.state(NOW + 1) is BreakerState.OPEN
    probe = NOW + BASE_EJECTION_S
    assert breaker.admits(probe)

    for ok in (True, False, None):
        breaker.record_outcome(probe + 1, ok=ok, began=NOW - 1)

    assert breaker.state(probe + 1) is BreakerState.HALF_OPEN
    assert not breaker.admits(probe + 1)
    breaker.record_outcome(probe + 2, ok=True, began=probe)
    for _ in range(CONSECUTIVE_FAILURES):
        breaker.record_outcome(probe + 3, ok=False, began=NOW - 1)
    assert breaker.state(probe + 3) is BreakerState.CLOSED


def test_a_call_that_was_sent_to_an_open_route_regardless_may_close_it_but_opens_it_no_longer():
    breaker = open_breaker()
    breaker.record_outcome(NOW + 2, ok=False, began=NOW + 1)
    breaker.record_outcome(NOW + 2, ok=None, began=NOW + 1)
    assert breaker.seconds_until_admission(NOW + 2) == BASE_EJECTION_S - 2

    breaker.record_outcome(NOW + 4, ok=True, began=NOW + 3)

    assert breaker.state(NOW + 4) is BreakerState.CLOSED


def second_ejection_s(after: float) -> float:
    """For how long it opens when it has been closed for so long after two ejections."""
    breaker = open_breaker()
    now = NOW + BASE_EJECTION_S
    assert breaker.admits(now)
    breaker.record_outcome(now, ok=False)
    now += breaker.seconds_until_admission(now)
    assert breaker.admits(now)
    breaker.record_outcome(now, ok=True)
    fail(breaker, now + after)
    return breaker.seconds_until_admission(now + after)


def test_each_minute_closed_forgives_an_ejection():
    assert second_ejection_s(FORGIVE_EJECTION_AFTER_S - 1) == 3 * BASE_EJECTION_S
    assert second_ejection_s(FORGIVE_EJECTION_AFTER_S) == 2 * BASE_EJECTION_S
    assert second_ejection_s(2 * FORGIVE_EJECTION_AFTER_S) == BASE_EJECTION_S
    assert second_ejection_s(200 * FORGIVE_EJECTION_AFTER_S) == BASE_EJECTION_S


def test_where_the_clock_goes_back_an_open_one_waits_no_longer_than_it_would_have():
    breaker = open_breaker()

    assert breaker.seconds_until_admission(10.0) == BASE_EJECTION_S
    assert not breaker.admits(10.0)
    assert breaker.seconds_until_admission(10.0 + BASE_EJECTION_S) == 0
    assert breaker.admits(10.0 + BASE_EJECTION_S)


def test_where_the_clock_goes_back_an_open_one_still_closes():
    breaker = open_breaker()
    assert not breaker.admits(10.0)

    breaker.record_outcome(12.0, ok=True, began=11.0)

    assert breaker.state(12.0) is BreakerState.CLOSED


def test_where_the_clock_goes_back_a_probe_keeps_its_place_no_longer_than_it_would_have():
    breaker = open_breaker()
    assert breaker.admits(NOW + 500)

    assert breaker.seconds_until_admission(NOW + BASE_EJECTION_S) == PROBE_TIMEOUT_S
    assert not breaker.admits(NOW + BASE_EJECTION_S)
    assert breaker.admits(NOW + BASE_EJECTION_S + PROBE_TIMEOUT_S)


def test_where_the_clock_goes_back_nothing_is_forgiven_and_nothing_added():
    breaker = open_breaker()
    assert breaker.admits(NOW + BASE_EJECTION_S)
    breaker.record_outcome(NOW + BASE_EJECTION_S, ok=True)

    fail(breaker, 500.0, 1)
    for _ in range(CONSECUTIVE_FAILURES):
        breaker.record_outcome(500.0, ok=False)

    assert breaker.seconds_until_admission(500.0) == 2 * BASE_EJECTION_S


def test_where_the_clock_goes_back_a_closed_one_still_opens():
    breaker = open_breaker()
    assert breaker.admits(NOW + BASE_EJECTION_S)
    breaker.record_outcome(NOW + BASE_EJECTION_S, ok=True)

    for _ in range(CONSECUTIVE_FAILURES + 1):
        breaker.record_outcome(10.0, ok=False, began=10.0)

    assert breaker.state(10.0) is BreakerState.OPEN


def test_the_routes_that_admit_are_tried_in_their_order():
    routes = [("a", CircuitBreaker()), ("b", open_breaker()), ("c", CircuitBreaker())]

    assert order_of(routes, NOW) == ["a", "c"]
    assert order_of(routes, NOW + BASE_EJECTION_S) == ["a", "b", "c"]


def test_where_every_route_is_open_the_one_that_reopens_soonest_is_tried():
    routes = [("a", open_breaker(NOW + 2)), ("b", open_breaker(NOW)), ("c", open_breaker(NOW + 1))]

    assert order_of(routes, NOW + 3) == ["b"]
    assert order_of([], NOW) == []
