"""Tests of attempts: what they remember, and what they let go of."""

import asyncio
from contextlib import suppress

import pytest

from proxy.calls.attempts.attempt import Attempt
from proxy.calls.deadlines import NoWatchdog
from proxy.calls.metering.finished_turn import FinishedTurn
from proxy.calls.pipeline import begin
from proxy.calls.ports import CallContext
from proxy.calls.route_choice import RouteChoice
from proxy.records.timeline import Timeline
from slo.breaker import BreakerState
from slo.usage import Usage
from tests.fakes.answers import (
    STREAM,
    failed_answer,
    stream,
)
from tests.fakes.call_dependencies import fake_dependencies
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import ticks
from tests.fakes.upstream import (
    CONNECTING,
    SILENCE,
    After,
    FakeTransport,
    broken_connection,
)
from tests.proxy.api.served_calls import streaming_call
from tests.proxy.calls.attempts.attempt_steps import (
    ONE,
    open_attempt,
    run,
)

pytestmark = pytest.mark.instant_time


@pytest.mark.parametrize(
    ("script", "was_accepted"), [(SILENCE, True), (CONNECTING, False), (stream(SILENCE), True)]
)
def test_a_cancelled_attempt_leaves_nothing_open(script, was_accepted):
    async def cancel(attempt: Attempt, _: FakeTransport) -> Attempt:
        task = asyncio.get_running_loop().create_task(begin(attempt))
        await asyncio.sleep(1)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        attempt.close(asyncio.CancelledError())
        assert task.cancelled()
        return attempt

    assert open_attempt(script, then=cancel).step.was_accepted is was_accepted


def test_attempt_reports_its_outcome_to_route_health():
    async def fail(attempt: Attempt, transport: FakeTransport) -> BreakerState:
        await run(attempt, transport)
        lanes = attempt.context.deps.route_health
        for n in range(4):
            lanes.record_outcome(ONE, broken_connection(), ticks(), ticks() + n)
        return lanes.health_of(ONE).breaker.state(ticks() + 4)

    assert open_attempt(failed_answer(500), then=fail) is BreakerState.OPEN
    assert open_attempt(stream(STREAM), then=fail) is BreakerState.CLOSED


class PlayedTicket:
    """Notes what a replica's ticket is told."""

    name = "house:1"
    why = "warm: 3 of 4 tokens"
    slots = 0

    def __init__(self) -> None:
        self.told: list[object] = []

    def send(self) -> None:
        self.told.append("sent")

    def begin_answer(self) -> None:
        self.told.append("begun")

    def end(
        self, usage: Usage | None, *, is_comparable: bool, turn: FinishedTurn | None = None
    ) -> None:
        self.told.append(None if usage is None else (usage.prompt_tokens, usage.cache_read))
        assert is_comparable
        assert (turn is None) == (usage is None)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (stream(After(3.0, STREAM)), ["sent", "begun"]),
        (failed_answer(503), ["sent", None]),
        (broken_connection(), ["sent", None]),
    ],
)
def test_the_ticket_of_a_replica_is_told_of_the_call_however_it_ends(script, expected):
    ticket = PlayedTicket()
    open_attempt(script, then=run, choice=RouteChoice(ONE, "m", replica=ticket))

    assert ticket.told[: len(expected)] == expected
    assert len(ticket.told) == len(expected) + ("begun" in expected)


async def test_the_caller_and_the_receipt_are_told_of_the_replica_and_the_reason():
    table, _ = fake_dependencies(FakeTransport([]), ONE)
    line = CallContext(streaming_call(), FakeCaller(), table, NoWatchdog(), Timeline(ticks))
    attempt = Attempt(line, RouteChoice(ONE, "m", replica=PlayedTicket()), 0)

    assert attempt.info.headers == {"x-thriftgate-replica": "house:1; warm: 3 of 4 tokens"}
    assert attempt.info.replica == "house:1; warm: 3 of 4 tokens"
