"""One attempt, to its commit point, and what it leaves behind."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from proxy.calls.attempts.attempt import Attempt
from proxy.calls.deadlines import NoWatchdog
from proxy.calls.metering.finished_turn import FinishedTurn
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.pipeline import begin
from proxy.calls.ports import Admitted, CallContext, CheaperRoute, Dependencies
from proxy.calls.route_choice import RouteChoice
from proxy.errors import CallerError, UpstreamError
from proxy.providers.port import PreparedRequest
from proxy.records.timeline import Timeline
from slo.breaker import BreakerState
from slo.concurrency import ConcurrencyLimit
from slo.usage import Usage
from tests.fakes.answers import (
    STREAM,
    USAGE,
    event,
    failed_answer,
    stream,
    usage_chunk,
)
from tests.fakes.call_dependencies import NoPlanning, fake_dependencies, route
from tests.fakes.caller import FakeCaller
from tests.fakes.chaos import two_model_catalog
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import (
    CONNECTING,
    SILENCE,
    After,
    FakeTransport,
    Piece,
    ScriptedAnswer,
    billed_and_malformed,
    broken_connection,
)
from tests.proxy.api.served_calls import streaming_call

ONE = route("one")


class Admits:
    """Answers every attempt the same."""

    def __init__(self, answer: Callable[[PreparedRequest], Admitted | CheaperRoute]) -> None:
        self._answer = answer
        self.fits: list[bool] = []

    async def admit(
        self, attempt: AttemptInfo, prepared: PreparedRequest, fits: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        self.fits = [fits(name) for name in ("small", "gone")]
        return self._answer(prepared)


def refuse_over_budget(_: PreparedRequest) -> Admitted:
    raise CallerError("It does not fit.", code="budget_exceeded")


def open_attempt(
    *scripts: ScriptedAnswer | Piece,
    then: Callable[[Attempt, FakeTransport], Coroutine[Any, Any, Any]],
    limits: Admits | None = None,
    moved: str = "",
    **fields: Any,
) -> Any:
    """Return what ``then`` finds; no attempt leaves a receipt, and each plan is ended once."""

    async def work() -> Any:
        transport = FakeTransport(scripts)
        table, ledger = fake_dependencies(transport, ONE)
        table = replace(table, limits=limits, catalog=two_model_catalog())
        line = CallContext(streaming_call(), FakeCaller(), table, NoWatchdog(), Timeline(ticks))
        attempt = Attempt(line, RouteChoice(ONE, "m", moved), 0, **fields)
        table.route_health.health_of(ONE).limit = ConcurrencyLimit(1, 1, 1)
        result = await then(attempt, transport)
        assert ledger.receipts == []
        assert planning_events(table).count("ended") == 1
        limit = table.route_health.health_of(ONE).limit
        assert limit is not None
        assert limit.in_flight == 0
        assert all(exchange.closed for exchange in transport.exchanges)
        return result

    return run_in_instant_time(work())


def planning_events(table: Dependencies) -> list[str]:
    assert isinstance(table.planning, NoPlanning)
    return table.planning.told


async def run(
    attempt: Attempt, _: FakeTransport
) -> tuple[Attempt, UpstreamError | CheaperRoute | None]:
    """Run it to its end, as the pipeline does."""
    failure = await begin(attempt)
    attempt.close(failure if isinstance(failure, UpstreamError) else None)
    return attempt, failure


def test_an_answer_is_brought_to_its_first_content():
    attempt, failure = open_attempt(stream(After(3.0, STREAM)), then=run)

    assert failure is None
    assert attempt.answer is not None
    assert (attempt.was_sent, attempt.was_accepted) == (True, True)
    assert attempt.context.timeline.ttft == pytest.approx(3.0)
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
    assert attempt.was_accepted is was_accepted
    assert attempt.answer is None


def test_a_refused_attempt_was_never_sent():
    async def expect_refusal(attempt: Attempt, transport: FakeTransport) -> Attempt:
        with pytest.raises(CallerError) as caught:
            await begin(attempt)
        attempt.close(caught.value)
        assert transport.sent == []
        return attempt

    assert open_attempt(then=expect_refusal, limits=Admits(refuse_over_budget)).was_sent is False


def test_an_attempt_over_its_ceiling_names_the_model_that_fits():
    limits = Admits(lambda _: CheaperRoute("small", "cheaper"))
    _, cheaper = open_attempt(then=run, limits=limits)

    assert cheaper == CheaperRoute("small", "cheaper")
    assert limits.fits == [True, False]


def test_a_rerouted_attempt_fits_no_other_model():
    async def stay(attempt: Attempt, transport: FakeTransport) -> Any:
        attempt.may_switch_model = False
        return await run(attempt, transport)

    limits = Admits(lambda _: CheaperRoute("small", "cheaper"))
    open_attempt(then=stay, limits=limits)

    assert limits.fits == [False, False]


def test_the_caller_is_notified_of_its_limits_and_where_it_went():
    limits = Admits(lambda prepared: Admitted(prepared, {"x-left": "1"}, ("a note",)))
    attempt, _ = open_attempt(stream(STREAM), then=run, limits=limits, moved="chat: level 1")

    assert attempt.info.headers == {"x-left": "1", "x-thriftgate-fallback": "chat: level 1"}
    assert attempt.info.notes[-1] == "a note"
    assert attempt.info.reroute_reason == "chat: level 1"


def test_an_unmodified_attempt_is_not_planned_and_still_ended():
    attempt, _ = open_attempt(stream(STREAM), then=run, is_resent=True)

    assert planning_events(attempt.context.deps) == ["begun", "ended"]
    assert attempt.info.notes == ("the planned prompt was refused, so it was sent unmodified",)
    assert attempt.changed_plan is None
    assert attempt.refused_plan(broken_connection()) is None


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

    assert open_attempt(script, then=cancel).was_accepted is was_accepted


def test_a_route_that_is_full_is_a_failure_like_another():
    async def full(attempt: Attempt, transport: FakeTransport) -> Any:
        lane = attempt.context.deps.route_health.health_of(ONE)
        await lane.acquire(ticks())
        result = await run(attempt, transport)
        lane.release(None, 0, ticks(), ok=True)
        return result

    attempt, failure = open_attempt(then=full)

    assert failure.code == "route_full"
    assert attempt.was_sent is False


def test_its_route_is_known_by_how_it_did():
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

    async def begin_on_replica(attempt: Attempt, transport: FakeTransport) -> Attempt:
        attempt.choice = msgspec.structs.replace(attempt.choice, replica=ticket)
        return (await run(attempt, transport))[0]

    open_attempt(script, then=begin_on_replica)

    assert ticket.told[: len(expected)] == expected
    assert len(ticket.told) == len(expected) + ("begun" in expected)


def test_the_caller_and_the_receipt_are_told_of_the_replica_and_the_reason():
    async def work() -> Attempt:
        table, _ = fake_dependencies(FakeTransport([]), ONE)
        line = CallContext(streaming_call(), FakeCaller(), table, NoWatchdog(), Timeline(ticks))
        return Attempt(line, RouteChoice(ONE, "m", replica=PlayedTicket()), 0)

    attempt = run_in_instant_time(work())

    assert attempt.info.headers == {"x-thriftgate-replica": "house:1; warm: 3 of 4 tokens"}
    assert attempt.info.replica == "house:1; warm: 3 of 4 tokens"
