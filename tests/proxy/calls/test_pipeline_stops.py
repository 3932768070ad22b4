"""A process that stops, or errs, leaves a receipt of what it was doing."""

import asyncio
from typing import Any

import pytest

from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import ASKED, STREAMED, chunk, failed_answer, stream
from tests.fakes.call_dependencies import (
    FakeEstimator,
    FakeLedger,
    call,
    fake_dependencies,
    serve_call,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import SILENCE, FakeTransport, Piece, ScriptedAnswer
from tests.proxy.api.served_calls import QUICK, streaming_call


def ledger_of_stopped_call(script: ScriptedAnswer | Piece, *, after: float) -> FakeLedger:
    """Return what the ledger holds when the task of a call is cancelled by others."""

    async def work() -> FakeLedger:
        transport = FakeTransport([script])
        table, ledger = fake_dependencies(
            transport, patience=QUICK, estimator=FakeEstimator(takes=60.0)
        )
        calls = serve_call(streaming_call(), FakeCaller(), table, Timeline(ticks))
        task = asyncio.ensure_future(calls)
        await asyncio.sleep(after)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert all(exchange.closed for exchange in transport.exchanges)
        return ledger

    return run_in_instant_time(work())


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (SILENCE, Outcome.FAILED),
        (stream(SILENCE), Outcome.FAILED),
        (failed_answer(429, {"retry-after": "7"}), Outcome.FAILED),
        (stream(chunk("a" * 40), SILENCE), Outcome.BROKEN),
    ],
)
def test_a_process_that_is_stopped_keeps_a_receipt_of_what_it_was_doing(script, outcome):
    last = ledger_of_stopped_call(script, after=2.0).receipts[-1]

    assert (last.final, last.outcome, last.error) == (True, outcome, "gateway_interrupted")
    if outcome is Outcome.BROKEN:
        assert last.usage == Usage(input=len(STREAMED) // 4, output=10)


def test_a_process_that_is_stopped_while_counting_keeps_a_receipt():
    last = ledger_of_stopped_call(SILENCE, after=20.0).receipts[-1]

    assert (last.final, last.error) == (True, "upstream_timeout")


@pytest.mark.instant_time
async def test_our_own_mistake_leaves_a_receipt_too():
    class Clumsy(FakeTransport):
        async def open(self, *_: Any) -> Any:
            raise KeyError("a bug")

    table, ledger = fake_dependencies(Clumsy([]))
    with pytest.raises(KeyError):
        await serve_call(call(ASKED), FakeCaller(), table, Timeline(ticks))
    (receipt,) = ledger.receipts
    assert (receipt.outcome, receipt.error, receipt.status) == (
        Outcome.FAILED,
        "gateway_interrupted",
        500,
    )


async def test_a_process_that_is_stopped_while_a_body_is_prepared_keeps_a_receipt():
    large = STREAMED.replace(b"Hello", b"Hello" * 60_000)

    table, ledger = fake_dependencies(FakeTransport([]))
    task = asyncio.ensure_future(serve_call(call(large), FakeCaller(), table, Timeline(ticks)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (receipt,) = ledger.receipts
    assert (receipt.final, receipt.error, receipt.usage) == (True, "gateway_interrupted", None)


@pytest.mark.instant_time
async def test_a_hang_up_stays_one_if_the_process_stops_while_it_is_counted():
    table, ledger = fake_dependencies(
        FakeTransport([stream(chunk("a"), SILENCE)]), estimator=FakeEstimator(takes=60.0)
    )
    calls = serve_call(streaming_call(), FakeCaller(leaves_after=3.0), table, Timeline(ticks))
    task = asyncio.ensure_future(calls)
    await asyncio.sleep(10.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (receipt,) = ledger.receipts
    assert (receipt.outcome, receipt.error) == (Outcome.HUNG_UP, "caller_hung_up")


@pytest.mark.instant_time
async def test_a_call_that_generates_nothing_is_not_estimated_when_the_process_stops():
    sound = ScriptedAnswer([b"\x00", SILENCE], headers={"content-type": "audio/mpeg"})

    table, ledger = fake_dependencies(FakeTransport([sound]))
    request = call(ASKED, endpoint="audio/speech")
    task = asyncio.ensure_future(serve_call(request, FakeCaller(), table, Timeline(ticks)))
    await asyncio.sleep(2.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (receipt,) = ledger.receipts
    assert (receipt.outcome, receipt.usage, receipt.estimated) == (Outcome.BROKEN, None, False)
