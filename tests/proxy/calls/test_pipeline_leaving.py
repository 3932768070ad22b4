"""A caller that leaves, or takes nothing more, and what it pays for."""

import asyncio
import time

import pytest

from proxy.calls.deadlines import ClientDisconnected
from proxy.records.receipt import Outcome, Receipt
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import BEAT, COMPLETION, DONE, STREAMED, chunk, failed_answer, stream
from tests.fakes.call_dependencies import (
    ESTIMATE,
    FakeEstimator,
    call,
    fake_dependencies,
    route,
    serve_call,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.upstream import EVENTS, SILENCE, FakeTransport, ScriptedAnswer, broken_connection
from tests.proxy.api.served_calls import ONE, TWO, serve_one_call, streaming_call

HANGS = {
    "before the headers": [SILENCE],
    "before the whole body": [ScriptedAnswer([SILENCE])],
    "before the first event": [stream(SILENCE)],
    "among keep-alives": [stream(BEAT, SILENCE)],
    "midway": [stream(chunk("a"), SILENCE)],
}


@pytest.mark.parametrize("scripts", HANGS.values(), ids=HANGS)
@pytest.mark.parametrize("routes", [(ONE,), (ONE, TWO)])
def test_a_caller_that_leaves_closes_the_exchange_and_pays_for_what_was_done(scripts, routes):
    done = serve_one_call(*scripts, sent_call=streaming_call(), routes=routes, leaves_after=3.0)

    assert isinstance(done.error, ClientDisconnected)
    assert done.outcomes == [(Outcome.HUNG_UP, True)]
    assert (done.last.usage, done.last.estimated) == (ESTIMATE, True)
    assert (done.last.status, done.last.error) == (499, "caller_hung_up")
    assert 3.0 <= done.took <= 3.5


def test_a_caller_that_leaves_in_a_pause_pays_nothing_for_what_was_not_sent():
    done = serve_one_call(failed_answer(429, {"retry-after": "7"}), leaves_after=3.0)

    assert isinstance(done.error, ClientDisconnected)
    assert done.outcomes == [(Outcome.FAILED, False), (Outcome.HUNG_UP, True)]
    assert (done.last.usage, done.last.estimated, done.last.route) == (None, False, "")
    assert len(done.transport.sent) == 1


def test_a_call_that_ends_while_its_batch_is_read_leaves_a_receipt():
    request = call(b'{"requests":[]}', "messages/batches", fields=None)
    transport = FakeTransport([])

    async def serve_in_real_time() -> list[Receipt]:  # a thread reads the batch
        table, ledger = fake_dependencies(transport, route("one", kind="anthropic"))
        serving = serve_call(request, FakeCaller(), table, Timeline(time.monotonic))
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(serving)
            await asyncio.sleep(0)
            task.cancel()
        assert task.cancelled()
        return ledger.receipts

    (receipt,) = asyncio.run(serve_in_real_time())

    assert (receipt.final, receipt.route, receipt.usage) == (True, "", None)
    assert not transport.sent


def test_a_caller_that_stops_reading_is_given_up():
    done = serve_one_call(stream(chunk("a"), chunk("b"), DONE), sent_call=streaming_call(), reads=1)

    assert isinstance(done.error, ClientDisconnected)
    assert done.outcomes == [(Outcome.HUNG_UP, True)]
    assert 5.0 <= done.took <= 6.0


@pytest.mark.parametrize(
    "script",
    [
        stream(chunk("a"), broken_connection()),
        stream(chunk("a"), DONE),
        ScriptedAnswer([COMPLETION]),
    ],
)
def test_a_caller_that_does_not_take_the_end_is_given_up(script):
    done = serve_one_call(
        script, sent_call=streaming_call(), reads=0 if script.headers is not EVENTS else 1
    )

    assert isinstance(done.error, ClientDisconnected)
    assert 5.0 <= done.took <= 6.0


@pytest.mark.parametrize("first", [SILENCE, stream(chunk("a"), broken_connection())])
def test_a_caller_that_leaves_while_tokens_are_counted_leaves_one_receipt(first):
    slow = FakeEstimator(takes=30.0)
    done = serve_one_call(first, sent_call=streaming_call(), estimator=slow, leaves_after=12.0)

    assert isinstance(done.error, ClientDisconnected)
    assert len(done.receipts) == 1
    assert done.last.estimated
    assert done.last.usage == Usage(input=len(STREAMED) // 4)


def test_a_caller_that_leaves_while_a_broken_answer_is_counted_has_hung_up():
    slow = FakeEstimator(takes=30.0)
    done = serve_one_call(
        stream(chunk("a" * 8), broken_connection()),
        sent_call=streaming_call(),
        estimator=slow,
        leaves_after=3.0,
    )

    assert isinstance(done.error, ClientDisconnected)
    assert done.outcomes == [(Outcome.HUNG_UP, True)]
    assert done.last.usage == Usage(input=len(STREAMED) // 4, output=2)
