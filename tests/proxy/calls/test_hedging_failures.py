"""Hedges that fail, end late, or are left by their caller."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from proxy.calls.deadlines import ClientDisconnected
from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import Admitted, CheaperRoute, Dependencies, SpendingLimits
from proxy.calls.route_choice import RouteChoice, RoutingDecision
from proxy.catalog.entries import Route
from proxy.errors import CallerError, UpstreamError
from proxy.providers.port import PreparedRequest
from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline
from slo.breaker import BreakerState
from tests.fakes.answers import SHOWN, STREAMED, chunk, failed_answer, stream
from tests.fakes.call_dependencies import (
    FreeCalls,
    NoPlanning,
    call,
    fake_dependencies,
    route,
    serve_call,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.hedged_calls import DEADLINE, LONG, FixedDecision, late, race
from tests.fakes.upstream import SILENCE, After, FakeTransport, broken_connection
from tests.proxy.api.served_calls import ONE, TWO, streaming_call

THREE = route("three")

PATIENT = RetryPolicy(first_byte_s=600.0, retries=0)


@pytest.mark.parametrize(
    ("took", "answered_at"),
    [
        ((100.0, 3.0, 3.0, 3.0), 10.0 + 1.0),
        ((3.0, 14.0, 14.0, 14.0), 20.0 + 1.0),  # slow too, and the call has waited longer
        ((3.0, 100.0, 100.0, 100.0), 50.0),
        ((), 20.0 + 1.0),  # unknown, and the level is overdue
    ],
)
def test_a_late_call_goes_to_the_route_that_was_left_once_that_began_again(took, answered_at):
    level = RouteChoice(TWO, "m", "chat-ttft: fallback level 1")
    left = RouteChoice(ONE, "m", is_suspect=True)

    def canaries(table: Dependencies) -> None:
        for seconds in took:
            table.route_health.health_of(ONE).ttft.record(seconds, ticks())

    done = race(late(50.0), late(1.0), choices=(level, left), before=canaries)

    assert done.took == pytest.approx(answered_at)


def test_a_hedge_that_fails_leaves_the_first_alone():
    done = race(late(15.0), failed_answer(500))

    assert done.took == pytest.approx(15.0)
    assert done.summary == [(0, "answered", "", True), (1, "failed", "upstream_error", False)]


def test_where_both_fail_the_call_fails_with_the_last():
    done = race(stream(After(9.0, b"")), failed_answer(503))

    assert done.error is not None
    assert len(done.receipts) == 2


def test_a_third_route_follows_when_two_have_failed():
    choices = tuple(RouteChoice(candidate, "m") for candidate in (ONE, TWO, THREE))
    done = race(stream(After(9.0, b"")), failed_answer(503), late(1.0), choices=choices)

    assert done.caller.body == SHOWN
    assert len(done.receipts) == 3


def test_a_caller_that_leaves_ends_every_attempt():
    done = race(SILENCE, SILENCE, leaves_after=8.0)

    assert isinstance(done.error, ClientDisconnected)
    assert sorted(receipt.outcome for receipt in done.receipts) == [Outcome.FAILED, Outcome.HUNG_UP]
    assert all(receipt.usage is not None for receipt in done.receipts)


def test_patience_ends_a_race_that_nobody_wins():
    done = race(SILENCE, SILENCE, patience=RetryPolicy(first_byte_s=30.0, retries=0))

    assert done.error is not None
    assert done.error.code == "upstream_timeout"


def test_an_answer_that_won_breaks_like_any_other():
    done = race(late(30.0), stream(chunk("a"), After(1.0, b"")))

    assert done.caller.body.startswith(chunk("a"))
    assert [receipt.outcome for receipt in done.receipts if receipt.final] == [Outcome.BROKEN]


def test_a_hedge_that_lost_says_nothing_of_its_route():
    done = race(late(7.0), SILENCE)
    for _ in range(4):  # a fifth in a row, and it would be left alone for a while
        done.table.route_health.record_outcome(TWO, broken_connection(), 2e9, 2e9 + 1)

    assert done.summary[1] == (1, "failed", "hedge_lost", False)
    assert done.table.route_health.health_of(TWO).breaker.state(2e9 + 2) is BreakerState.CLOSED


def test_a_route_that_was_given_up_for_its_lateness_is_not_taken_to_fail():
    done = race(late(50.0), late(2.0), calls_before=0)
    for _ in range(4):
        done.table.route_health.record_outcome(ONE, broken_connection(), 2e9, 2e9 + 1)

    assert done.table.route_health.health_of(ONE).breaker.state(2e9 + 2) is BreakerState.CLOSED


def test_a_stalled_attempt_is_given_up_for_the_last_resort_and_counts_as_failed():
    small = RouteChoice(TWO, "small", "chat-ttft: in its place", is_last_resort=True)
    done = race(SILENCE, late(1.0), choices=(RouteChoice(ONE, "m"), small), patience=PATIENT)
    for _ in range(4):
        done.table.route_health.record_outcome(ONE, broken_connection(), 2e9, 2e9 + 1)

    assert done.took == pytest.approx(10 * DEADLINE + 1)
    assert done.summary == [(0, "failed", "ttft_hang", False), (1, "answered", "", True)]
    assert done.table.route_health.health_of(ONE).breaker.state(2e9 + 2) is BreakerState.OPEN


def test_where_a_hedge_is_late_too_a_third_route_follows():
    choices = tuple(RouteChoice(candidate, "m") for candidate in (ONE, TWO, THREE))
    done = race(SILENCE, SILENCE, late(1.0), choices=choices, patience=PATIENT)

    assert done.took == pytest.approx(6.0 + DEADLINE + 1)  # the hedge, its deadline, a second
    assert [error for _, _, error, _ in done.summary] == ["ttft_deadline", "ttft_deadline", ""]


def test_a_caller_that_leaves_after_a_hedge_failed_leaves_the_first():
    done = race(SILENCE, failed_answer(500), leaves_after=8.0)

    assert isinstance(done.error, ClientDisconnected)
    assert done.summary == [
        (0, "hung_up", "caller_hung_up", True),
        (1, "failed", "upstream_error", False),
    ]


def test_receipts_of_a_race_tell_times_since_the_call_came():
    done = race(late(30.0), late(1.0))
    lost, won = sorted(done.receipts, key=lambda receipt: receipt.attempt)

    assert won.ttft == pytest.approx(7.0)
    assert lost.duration == pytest.approx(7.0)
    assert won.overhead == pytest.approx(0.0)
    assert lost.overhead == pytest.approx(0.0)


def test_planning_time_counts_as_the_gateways_when_hedging_too():
    done = race(late(2.0), planned_in=1.0)

    assert done.receipts[0].ttft == pytest.approx(3.0)
    assert done.receipts[0].overhead == pytest.approx(1.0)


def test_a_call_that_fails_after_a_race_took_as_long_as_it_did():
    done = race(stream(After(9.0, b"")), stream(After(9.0, b"")))

    assert [receipt.duration for receipt in done.receipts if receipt.final] == [pytest.approx(15.0)]


def test_a_late_answer_is_waited_for_where_the_next_route_fails_just_now():
    done = race(late(50.0), before=lambda table: _leave_alone(table, TWO))

    assert done.took == pytest.approx(50.0)
    assert done.summary == [(0, "answered", "", True)]


def _leave_alone(table: Dependencies, bad: Route) -> None:
    for _ in range(5):
        table.route_health.record_outcome(bad, broken_connection(), ticks(), ticks())


@pytest.mark.parametrize("turns", range(8))
def test_a_gateway_that_stops_twice_leaves_no_attempt_behind(turns):
    """It says so again in each moment in which a race lets go of its attempts."""
    receipts = receipts_of_stopped_call(8.0, turns=turns)

    assert receipts == [(0, "hedge_lost", False), (1, "gateway_interrupted", True)]


@pytest.mark.parametrize("again", [None, 0.1, 0.7])
@pytest.mark.parametrize("error", [None, broken_connection()])
@pytest.mark.parametrize("calls_before", [1000, 0])
@pytest.mark.parametrize("stop_s", [5.9, 6.0, 8.0, 10.0, 10.2, 10.6])
def test_attempts_that_take_their_time_to_end_are_waited_for(stop_s, calls_before, error, again):
    limits = SlowRefusal(error)
    receipts = receipts_of_stopped_call(
        stop_s, again=again, calls_before=calls_before, limits=limits
    )

    assert [final for *_, final in receipts].count(True) == 1
    assert len({number for number, *_ in receipts}) == len(receipts)


def receipts_of_stopped_call(
    stop_s: float,
    *,
    turns: int = 0,
    again: float | None = 0.0,
    calls_before: int = 1000,
    limits: SpendingLimits | None = None,
) -> list[tuple[int, str, bool]]:
    """The receipts of a call that a gateway ends which stops, and says so twice."""

    async def work() -> list[tuple[int, str, bool]]:
        choices = (RouteChoice(ONE, "m"), RouteChoice(TWO, "m"))
        table, ledger = fake_dependencies(
            FakeTransport([SILENCE, SILENCE]), ONE, TWO, patience=LONG
        )
        decided = FixedDecision(RoutingDecision(choices=choices, deadline=DEADLINE))
        table = replace(table, router=decided, limits=limits)
        for _ in range(calls_before):
            table.route_health.record_call(1_000_000, ticks())
        line = serve_call(streaming_call(), FakeCaller(), table, Timeline(ticks))
        task = asyncio.get_running_loop().create_task(line)
        await asyncio.sleep(stop_s)
        task.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        if again is not None:
            await asyncio.sleep(again)
            task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(1)
        assert task.cancelled() or task.exception() is not None
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert isinstance(table.planning, NoPlanning)
        events = table.planning.told
        assert events.count("planned") == events.count("ended")
        return sorted(
            (receipt.attempt, receipt.error, receipt.final) for receipt in ledger.receipts
        )

    return run_in_instant_time(work())


class SlowRefusal(FreeCalls):
    """Admits no call, and takes half a second to end when it is cancelled."""

    def __init__(self, error: UpstreamError | None) -> None:
        self._error = error

    async def admit(
        self, attempt: AttemptInfo, prepared: PreparedRequest, _: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)
            if self._error is not None:
                raise self._error from None
            raise
        return Admitted(prepared)


def test_of_two_that_begin_in_the_same_moment_one_is_the_calls():
    done = race(late(7.0), late(1.0))

    assert done.took == pytest.approx(7.0)
    assert done.caller.body == SHOWN
    assert sorted(receipt.final for receipt in done.receipts) == [False, True]


@pytest.mark.parametrize(("chars", "attempts"), [(31_900, 2), (32_000, 1)])
def test_a_prompt_of_more_than_8000_tokens_is_not_read_twice(chars: int, attempts: int):
    long = STREAMED.replace(b"Hello", b"x" * chars)
    done = race(late(9.0), late(9.0), asking=call(long))

    assert len(done.summary) == attempts


def test_a_refused_hedge_does_not_fail_the_attempt_under_way():
    done = race(late(8.0), limits=LimitedAdmission(after=1))

    assert done.caller.body == SHOWN
    assert done.summary == [
        (0, "answered", "", True),
        (1, "refused", "budget_exceeded", False),
    ]


def test_a_mistake_of_ours_in_one_attempt_leaves_the_other_alone():
    done = race(late(8.0), limits=LimitedAdmission(after=1, error=ZeroDivisionError()))

    assert done.caller.body == SHOWN
    assert done.summary[1] == (1, "failed", "gateway_interrupted", False)


class LimitedAdmission(FreeCalls):
    """Admits so many attempts, and refuses the others."""

    def __init__(self, after: int, error: Exception | None = None) -> None:
        self._after = after
        self._error = error or CallerError("It does not fit.", code="budget_exceeded")

    async def admit(
        self, attempt: AttemptInfo, prepared: PreparedRequest, _: Callable[[str], bool]
    ) -> Admitted | CheaperRoute:
        if attempt.number >= self._after:
            raise self._error
        return Admitted(prepared)
