"""The receipts of attempts that came to no answer."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.failed_attempts import (
    record_cancelled,
    record_failed,
    record_failure_with_usage,
    record_refused,
    record_superseded,
)
from proxy.calls.deadlines import AwaitedEvent, ClientDisconnected, NoWatchdog, gateway_interrupted
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import estimate_from_length
from proxy.calls.ports import CallContext
from proxy.calls.route_choice import RouteChoice
from proxy.errors import CallerError
from proxy.providers.answers.usage import openai_usage
from proxy.providers.failures import openai_failure
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import ASKED, USAGE, event
from tests.fakes.call_dependencies import (
    ESTIMATE,
    FakeEstimator,
    FakeLedger,
    call,
    fake_dependencies,
    route,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import FakeTransport, broken_connection
from tests.proxy.calls.attempts.attempt_steps import sent_attempt


class FakeWatchdog(NoWatchdog):
    """A watch that knows whether it was told to rest."""

    def __init__(self) -> None:
        self.waits: AwaitedEvent | None = AwaitedEvent.FIRST_BYTE

    def clear_deadline(self) -> None:
        self.waits = None


def opening(
    *, was_taken: bool = True, takes: float = 0.0, failed_meter: Meter | None = None
) -> tuple[Attempt, FakeLedger, FakeWatchdog]:
    table, ledger = fake_dependencies(FakeTransport([]), estimator=FakeEstimator(takes=takes))
    watch = FakeWatchdog()
    line = CallContext(call(ASKED), FakeCaller(), replace(table), watch, Timeline(ticks))
    attempt = Attempt(line, RouteChoice(route("one"), "m", "moved"), 3)
    attempt.reach(sent_attempt(attempt, was_accepted=was_taken, failed_meter=failed_meter))
    return attempt, ledger, watch


def receipt(work: Coroutine[Any, Any, FakeLedger]) -> Receipt:
    (booked,) = run_in_instant_time(work).receipts
    assert (booked.attempt, booked.route, booked.reroute_reason) == (3, "one/m", "moved")
    return booked


def test_an_attempt_that_the_gateway_would_not_send_is_recorded_as_refused():
    async def work() -> FakeLedger:
        attempt, ledger, _ = opening()
        record_refused(attempt, CallerError("too dear", code="budget_exceeded"), final=False)
        return ledger

    booked = receipt(work())

    assert (booked.outcome, booked.error, booked.final) == (
        Outcome.REFUSED, "budget_exceeded", False,
    )  # fmt: skip
    assert (booked.status, booked.usage, booked.notes) == (400, None, ())


def test_a_refusal_by_a_limit_stands_on_the_receipt_as_the_caller_got_it():
    refusal = CallerError("The budget `day` of team `acme` is full.", code="budget_exceeded")
    refusal.details = {"budget": "day"}

    async def work() -> FakeLedger:
        attempt, ledger, _ = opening()
        record_refused(attempt, refusal)
        return ledger

    assert receipt(work()).notes == (refusal.message,)


@pytest.mark.parametrize("final", [True, False])
def test_an_attempt_that_an_upstream_worked_on_is_counted(final):
    async def work() -> FakeLedger:
        attempt, ledger, watch = opening()
        await record_failed(attempt, broken_connection(), final=final)
        assert watch.waits is None
        return ledger

    booked = receipt(work())

    assert (booked.outcome, booked.final, booked.usage) == (Outcome.FAILED, final, ESTIMATE)
    assert booked.estimated
    assert booked.cost_nanos


def heard(**fields: Any) -> Meter:
    meter = Meter(openai_usage, streamed=True)
    meter.feed(event({"id": "chatcmpl-1", "error": {"message": "no"}, **fields}))
    return meter


@pytest.mark.parametrize(
    ("reported", "usage", "estimated"),
    [(USAGE, Usage(input=36, cache_read=64, output=10), False), (None, ESTIMATE, True)],
)
@pytest.mark.parametrize("keep", [partial(record_failed, final=False), record_superseded])
def test_usage_reported_by_a_failure_is_no_estimate(keep, reported, usage, estimated):
    async def work() -> FakeLedger:
        attempt, ledger, _ = opening(failed_meter=heard(usage=reported))
        await keep(attempt, broken_connection())
        return ledger

    booked = receipt(work())

    assert (booked.usage, booked.estimated) == (usage, estimated)
    assert booked.upstream_id == "chatcmpl-1"


def test_an_attempt_that_no_upstream_accepted_costs_nothing():
    async def work() -> FakeLedger:
        attempt, ledger, _ = opening(was_taken=False)
        await record_failed(attempt, broken_connection(), final=True)
        return ledger

    booked = receipt(work())

    assert (booked.usage, booked.cost_nanos, booked.estimated) == (None, None, False)


@pytest.mark.parametrize(
    ("keep", "final"),
    [
        (lambda attempt: record_failed(attempt, broken_connection(), final=False), True),
        (lambda attempt: record_failed(attempt, broken_connection(), final=True), True),
        (lambda attempt: record_superseded(attempt, broken_connection()), False),
    ],
)
def test_a_call_that_ends_while_it_is_counted_is_counted_by_its_length(keep, final):
    """Nothing follows any more, so its receipt is the last; but not that of a race's loser."""

    async def work() -> FakeLedger:
        attempt, ledger, _ = opening(takes=5.0)
        task = asyncio.get_running_loop().create_task(keep(attempt))
        await asyncio.sleep(1)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()
        return ledger

    booked = receipt(work())

    assert (booked.final, booked.usage) == (final, estimate_from_length(call(ASKED), ""))


def test_a_superseded_attempt_never_ends_its_call():
    async def work() -> FakeLedger:
        attempt, ledger, _ = opening()
        await record_superseded(attempt, broken_connection())
        return ledger

    assert receipt(work()).final is False


def test_an_answer_that_the_gateway_cut_off_is_counted_by_its_length():
    async def work() -> FakeLedger:
        attempt, ledger, _ = opening()
        record_cancelled(attempt, gateway_interrupted(), final=True)
        return ledger

    booked = receipt(work())

    assert (booked.error, booked.usage) == (
        "gateway_interrupted",
        estimate_from_length(call(ASKED), ""),
    )


def test_a_caller_that_left_is_told_from_what_failed():
    async def work() -> FakeLedger:
        attempt, ledger, _ = opening()
        record_failure_with_usage(
            attempt.context, attempt.info, ClientDisconnected(), None, final=True
        )
        return ledger

    assert receipt(work()).outcome is Outcome.HUNG_UP


@pytest.mark.parametrize(
    ("text", "usage", "estimated"),
    [('"usage":{"prompt_tokens":9,"completion_tokens":2}', Usage(input=9, output=2), False),
     ('"usage":null', ESTIMATE, True)],
)  # fmt: skip
def test_a_whole_answer_that_cannot_be_said_is_billed_as_it_told(text, usage, estimated):
    async def work() -> FakeLedger:
        meter = Meter(openai_usage, streamed=False)
        meter.feed(b'{"id":"a","choices":[],' + text.encode() + b"}")
        attempt, ledger, _ = opening(failed_meter=meter)
        await record_failed(attempt, broken_connection(), final=True)
        return ledger

    booked = receipt(work())
    assert (booked.usage, booked.estimated) == (usage, estimated)


def test_a_failed_attempt_keeps_the_words_of_its_upstream():
    async def fail() -> FakeLedger:
        attempt, ledger, _ = opening(was_taken=False)
        failure = openai_failure(503, {}, b'{"error": {"message": "Overloaded."}}')
        await record_failed(attempt, failure, final=True)
        return ledger

    assert receipt(fail()).upstream_error == "it answered 503 'Overloaded.'"
