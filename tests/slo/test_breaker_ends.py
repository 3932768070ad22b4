"""Answers that begin well and break: they open a breaker as failures do."""

from slo.breaker import (
    BASE_EJECTION_S,
    CONSECUTIVE_FAILURES,
    MIN_CALLS,
    BreakerState,
    CircuitBreaker,
)
from tests.slo.breaker_steps import NOW, fail, open_breaker


def answer(breaker: CircuitBreaker, endings: str, now: float = NOW) -> None:
    """Answers that begin; each then ends well (.) or breaks (x)."""
    for ending in endings:
        assert breaker.admits(now)
        breaker.record_outcome(now, ok=True, began=now)
        breaker.record_end(now, ok=ending == ".", began=now)


def test_answers_that_break_in_a_row_open_it_though_each_has_begun():
    breaker = CircuitBreaker()
    answer(breaker, "x" * (CONSECUTIVE_FAILURES - 1))
    assert breaker.state(NOW) is BreakerState.CLOSED
    answer(breaker, "x")

    assert breaker.state(NOW) is BreakerState.OPEN
    assert breaker.seconds_until_admission(NOW) == BASE_EJECTION_S


def test_an_answer_that_ends_well_begins_the_row_anew():
    breaker = CircuitBreaker()
    for _ in range(3):
        answer(breaker, "x" * (CONSECUTIVE_FAILURES - 1) + ".")

    assert breaker.state(NOW) is BreakerState.CLOSED


def test_most_of_twenty_answers_that_break_open_it():
    breaker = CircuitBreaker()
    for _ in range(MIN_CALLS // 2 - 1):
        answer(breaker, ".x")
    assert breaker.state(NOW) is BreakerState.CLOSED
    answer(breaker, "xx")

    assert breaker.state(NOW) is BreakerState.OPEN


def test_a_probe_whose_answer_breaks_opens_it_again_for_longer():
    breaker = CircuitBreaker()
    answer(breaker, "x" * CONSECUTIVE_FAILURES)
    later = NOW + BASE_EJECTION_S
    assert breaker.admits(later)
    breaker.record_outcome(later + 1, ok=True, began=later)
    assert breaker.state(later + 1) is BreakerState.CLOSED
    breaker.record_end(later + 2, ok=False, began=later + 1)

    assert breaker.seconds_until_admission(later + 2) == 2 * BASE_EJECTION_S


def test_failures_after_a_probe_of_broken_answers_are_a_row_of_their_own():
    breaker = CircuitBreaker()
    answer(breaker, "x" * CONSECUTIVE_FAILURES)
    later = NOW + BASE_EJECTION_S
    assert breaker.admits(later)
    breaker.record_outcome(later, ok=True, began=later)

    fail(breaker, later + 1, CONSECUTIVE_FAILURES - 1)
    assert breaker.state(later + 1) is BreakerState.CLOSED
    fail(breaker, later + 1, 1)
    assert breaker.state(later + 1) is BreakerState.OPEN


def test_answers_of_before_it_opened_or_closed_are_no_news():
    breaker = open_breaker()
    for _ in range(CONSECUTIVE_FAILURES):
        breaker.record_end(NOW + 1, ok=False, began=NOW - 1)
    assert breaker.ejections == 1
    later = NOW + BASE_EJECTION_S
    assert breaker.admits(later)
    breaker.record_outcome(later, ok=True, began=later)
    for _ in range(CONSECUTIVE_FAILURES):
        breaker.record_end(later, ok=False, began=NOW)

    assert breaker.state(later) is BreakerState.CLOSED
