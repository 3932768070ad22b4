"""Tests of the steps of an attempt at its upstream."""

from typing import Any

import pytest

from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.steps import AnsweredAttempt, SentAttempt
from tests.fakes.answers import (
    STREAM,
    USAGE,
    event,
    failed_answer,
    stream,
    usage_chunk,
)
from tests.fakes.clock import ticks
from tests.fakes.upstream import (
    After,
    FakeTransport,
    ScriptedAnswer,
    billed_and_malformed,
    broken_connection,
)
from tests.proxy.calls.attempts.attempt_steps import ONE, open_attempt, planning_events, run


def test_an_answer_is_brought_to_its_first_content():
    attempt, opening = open_attempt(stream(After(3.0, STREAM)), then=run)

    assert isinstance(opening, AnsweredAttempt)
    assert attempt.step is opening
    assert opening.was_accepted
    assert opening.ttft == attempt.context.timeline.ttft == pytest.approx(3.0)
    assert planning_events(attempt.context.deps) == ["planned", "begun", "ended"]


@pytest.mark.parametrize(
    ("script", "code", "was_accepted"),
    [
        (failed_answer(503), "upstream_overloaded", False),
        (broken_connection(), "upstream_connection_broken", False),
        (billed_and_malformed(), "upstream_malformed", True),
        (stream(After(1.0, b"")), "upstream_failed_early", True),
        (stream(event({"error": {"message": "no"}})), "upstream_error", False),
        (stream(event({"error": {"message": "no"}, "usage": USAGE})), "upstream_error", True),
        (stream(usage_chunk() + event({"error": {"message": "no"}})), "upstream_error", True),
        (ScriptedAnswer([b"<html>"]), "upstream_malformed", False),
    ],
)
def test_a_failure_before_that_is_handed_back(script, code, was_accepted):
    attempt, failure = open_attempt(script, then=run)

    assert failure.code == code
    assert attempt.step.was_accepted is was_accepted
    assert not isinstance(attempt.step, AnsweredAttempt)


def test_a_route_that_is_full_is_a_failure_like_another():
    async def full(attempt: Attempt, transport: FakeTransport) -> Any:
        lane = attempt.context.deps.route_health.health_of(ONE)
        await lane.acquire(ticks())
        result = await run(attempt, transport)
        lane.release(None, 0, ticks(), ok=True)
        return result

    attempt, failure = open_attempt(then=full)

    assert failure.code == "route_full"
    assert not isinstance(attempt.step, SentAttempt)
