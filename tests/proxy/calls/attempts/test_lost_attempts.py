"""Attempts that lost: the error on their receipts, and what is learnt of their routes."""

from math import inf

import pytest

from proxy.calls.attempts.lost_attempts import LostAttempt
from proxy.calls.ports import CallContext
from tests.fakes.upstream import broken_connection
from tests.proxy.calls.attempts.attempt_steps import answered_attempt, sent_attempt
from tests.proxy.calls.sequenced_routes import course, line

DEADLINE = 1.0


def lost(on: CallContext, waited_s: float, *, was_sent: bool = True) -> LostAttempt:
    """An attempt at the first route that lost to one at the second."""
    sequence = course(on)
    attempt = sequence.next_attempt()
    if was_sent:
        attempt.reach(sent_attempt(attempt))
    sequence.advance()
    winner = sequence.next_attempt()
    winner.reach(answered_attempt(winner, ttft=0.8))
    return LostAttempt(attempt, winner, waited_s, DEADLINE)


@pytest.mark.parametrize(
    ("waited_s", "code"),
    [
        (0.9, "hedge_lost"),
        (1.0, "ttft_deadline"),
        (9.9, "ttft_deadline"),
        (10.0, "ttft_hang"),
    ],
)
def test_a_lost_attempt_s_error_says_how_late_it_was(waited_s, code):
    assert lost(line(), waited_s).reason().code == code


def test_a_route_whose_attempt_lost_late_is_known_not_to_begin():
    on = line()
    late = lost(on, 0.6)
    for _ in range(3):
        late.note_slowness(on)

    assert on.deps.route_health.health_of(late.attempt.choice.route).ttft.newest(1000.0) == inf


@pytest.mark.parametrize(("usual", "assumed"), [(0.8, 0.8), (0.1, None)])
def test_a_route_that_a_slow_one_outran_is_taken_to_be_as_slow(usual, assumed):
    on = line()
    early = lost(on, 0.3)
    for _ in range(3):
        on.deps.route_health.health_of(early.winner.choice.route).ttft.record(usual, 1000.0)
    for _ in range(3):
        early.note_slowness(on)

    assert on.deps.route_health.health_of(early.attempt.choice.route).ttft.median(1000.0) == assumed


def test_lost_attempt_that_was_never_sent_leaves_route_health_alone():
    on = line()
    unsent = lost(on, 0.6, was_sent=False)
    for _ in range(3):
        unsent.note_slowness(on)

    assert on.deps.route_health.health_of(unsent.attempt.choice.route).ttft.newest(1000.0) is None


@pytest.mark.parametrize(("waited_s", "fails"), [(0.5, False), (0.6, True)])
def test_an_attempt_that_lost_late_on_a_route_that_is_tried_again_is_a_failure(waited_s, fails):
    on = line()
    attempt = lost(on, waited_s)
    assert not attempt.is_failed_probe(on)
    for _ in range(5):
        on.deps.route_health.record_outcome(
            attempt.attempt.choice.route, broken_connection(), 950.0, 951.0
        )

    assert attempt.is_failed_probe(on) == fails
