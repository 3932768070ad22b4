"""Calls when there is no room, when someone leaves, and when the mistake is ours."""

import asyncio
import gc
import json
import logging
from types import FrameType
from typing import Any

import pytest

from proxy.api.endpoint import Endpoint
from proxy.records.receipt import Outcome
from tests.fakes.answers import ASKED, COMPLETION, DONE, STREAM, STREAMED, chunk, stream
from tests.fakes.asgi import AsgiConnection, answer_of_app, nothing, refusal, scope
from tests.fakes.call_dependencies import FakeEstimator, fake_dependencies
from tests.fakes.clock import run_in_instant_time
from tests.fakes.endpoint_harness import EndpointHarness
from tests.fakes.loop_turns import with_loop_turns
from tests.fakes.upstream import SILENCE, ScriptedAnswer


def test_a_gateway_that_is_full_says_when_to_come_back():
    harness = EndpointHarness((SILENCE,), max_calls=1)

    async def work() -> AsgiConnection:
        first = asyncio.ensure_future(
            answer_of_app(harness.front, scope(), AsgiConnection([ASKED]))
        )
        await asyncio.sleep(1)
        second = await answer_of_app(harness.front, scope(), AsgiConnection([ASKED]))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        third = await answer_of_app(harness.front, scope(headers={"authorization": ""}))
        assert refusal(third)["code"] == "missing_api_key"
        return second

    full = run_in_instant_time(work())
    assert (full.status, refusal(full)["code"]) == (503, "too_many_calls")
    assert full.headers["retry-after"] == "1"


def test_a_gateway_that_cannot_keep_receipts_takes_no_calls():
    harness = EndpointHarness(trouble="The disk is full.")
    connection = harness.ask()

    assert (connection.status, refusal(connection)["code"]) == (503, "ledger_unavailable")
    assert harness.transport.sent == []


def test_a_call_that_failed_leaves_no_cycle_of_frames_with_its_body():
    error = json.dumps({"error": {"message": "No.", "code": "no"}}).encode()
    harness = EndpointHarness((ScriptedAnswer([error], 400), ScriptedAnswer([error], 400)))
    harness.ask()
    gc.collect()
    gc.disable()
    try:
        gc.set_debug(gc.DEBUG_SAVEALL)
        assert harness.ask().status == 400
        gc.collect()
        frames = [garbage for garbage in gc.garbage if isinstance(garbage, FrameType)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    assert [
        frame.f_code.co_qualname for frame in frames if "proxy" in frame.f_code.co_filename
    ] == []


def test_an_upstreams_error_reaches_the_caller_with_its_body_and_its_headers():
    error = {"message": "No.", "type": "t", "param": None, "code": None, "failed_generation": "<f"}
    headers = {"content-type": "application/json", "x-should-retry": "false", "retry-after": "9"}
    headers["x-request-id"] = "req_1"
    limits = {"x-ratelimit-remaining-requests": "3"}
    harness = EndpointHarness(
        (ScriptedAnswer([json.dumps({"error": error}).encode()], 429, headers | limits),)
    )
    answered = harness.ask()

    assert (answered.status, json.loads(answered.body)) == (429, {"error": error})
    passed = {name: answered.headers[name] for name in ("x-should-retry", "retry-after", *limits)}
    assert passed == {"x-should-retry": "false", "retry-after": "9", **limits}
    assert answered.headers["x-thriftgate-upstream-request-id"] == "req_1"
    assert harness.receipts[0].error == "rate_limit_exceeded"
    assert harness.receipts[0].upstream_request_id == "req_1"


class FailingEstimator(FakeEstimator):
    """Makes a mistake of ours once an answer is complete or begun."""

    def learn(self, *_: Any) -> None:
        raise RuntimeError("at /etc/secret")


def clumsy(*scripts: ScriptedAnswer) -> EndpointHarness:
    harness = EndpointHarness(scripts)
    table, ledger = fake_dependencies(harness.transport, estimator=FailingEstimator())
    harness.front = Endpoint(nothing, table, harness.front._admission)
    harness.receipts = ledger.receipts
    return harness


def test_our_own_mistake_is_a_bare_500_and_stands_in_the_log(caplog):
    harness = clumsy(ScriptedAnswer([COMPLETION]))
    with caplog.at_level(logging.ERROR, "thriftgate.api"):
        connection = harness.ask()

    assert (connection.status, refusal(connection)["code"]) == (500, "internal_error")
    assert b"secret" not in connection.body
    assert "call_1790000000" in connection.body.decode()
    (record,) = caplog.records
    assert record.exc_info is not None
    assert len(harness.receipts) == 1


def test_our_own_mistake_in_the_middle_of_an_answer_breaks_it_off(caplog):
    harness = clumsy(stream(chunk("a"), STREAM))
    connection = AsgiConnection([STREAMED])
    with caplog.at_level(logging.ERROR, "thriftgate.api"), pytest.raises(RuntimeError):
        harness.ask(connection)

    assert connection.status == 200
    assert not connection.is_ended
    assert DONE not in connection.body
    (receipt,) = harness.receipts
    assert (receipt.outcome, receipt.error) == (Outcome.BROKEN, "gateway_interrupted")


def test_a_caller_that_leaves_is_told_nothing_more():
    harness = EndpointHarness((stream(chunk("a"), SILENCE),))
    left = harness.ask(AsgiConnection([STREAMED], leaves_after=3.0))

    assert left.body == chunk("a")
    assert not left.is_ended
    assert harness.receipts[0].outcome is Outcome.HUNG_UP


def test_calls_in_flight_are_counted_down_however_they_end():
    harness = EndpointHarness(
        (ScriptedAnswer([COMPLETION]), stream(SILENCE), ScriptedAnswer([COMPLETION])), max_calls=1
    )
    harness.ask()
    harness.ask(AsgiConnection([STREAMED], leaves_after=1.0))

    assert harness.ask().status == 200


def test_bodies_in_flight_are_bounded_and_their_room_is_given_back():
    harness = EndpointHarness((SILENCE, ScriptedAnswer([COMPLETION])), bodies=len(ASKED) + 10)

    async def work() -> AsgiConnection:
        first = asyncio.ensure_future(
            answer_of_app(harness.front, scope(), AsgiConnection([ASKED]))
        )
        await asyncio.sleep(1)
        assert harness.room.reserved_bytes == len(ASKED)
        second = await answer_of_app(harness.front, scope(), AsgiConnection([ASKED]))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return second

    full = run_in_instant_time(work())
    assert (full.status, refusal(full)["code"]) == (503, "too_many_bytes")
    assert full.headers["retry-after"] == "1"
    assert harness.ask().status == 200
    assert harness.room.reserved_bytes == 0


@pytest.mark.parametrize(
    "connection",
    [AsgiConnection([b"{"]), AsgiConnection([b"{", None]), AsgiConnection([], leaves_after=1.0)],
    ids=["refused", "silent", "left"],
)
def test_room_for_a_body_is_given_back_however_its_call_ends(connection):
    harness = EndpointHarness()
    harness.ask(connection, headers={"content-length": "900"})

    assert harness.room.reserved_bytes == 0


def test_a_stream_says_in_its_head_what_the_gateway_took_so_far():
    answered = EndpointHarness((stream(STREAM),)).ask(STREAMED)

    assert answered.headers["x-thriftgate-overhead-ms"] == "0.00"


def test_a_call_that_is_cut_off_before_its_answer_began_is_told_that_we_stop():
    harness = EndpointHarness(scripts=(SILENCE,))
    connection = AsgiConnection([ASKED])

    async def work() -> None:
        call = asyncio.ensure_future(answer_of_app(harness.front, scope(), connection))
        await asyncio.sleep(0.5)
        call.cancel()
        await call

    run_in_instant_time(work())

    assert connection.status == 503
    assert refusal(connection)["code"] == "gateway_stopping"
    assert [receipt.error for receipt in harness.receipts] == ["gateway_interrupted"]


@pytest.mark.parametrize(
    ("begin", "value", "times", "end"),
    [
        (b'{"model":"m",', b'"k%d":0', 1_000_000, b"}"),
        (b'{"model":"m","messages":[', b'{"a" :0}', 60_000, b"]}"),
        (b'{"model":"m","messages":[', b"[]", 600_000, b"]}"),
        (b'{"model":"m","messages":[],"tools":[', b"{}", 110_000, b"]}"),
    ],
    ids=["a million keys", "spaced keys", "lists", "empty tools"],
)
def test_a_body_with_too_many_keys_is_refused_before_it_is_parsed_and_others_run(
    begin, value, times, end
):
    harness = EndpointHarness(body=1 << 30, bodies=1 << 30)
    values = [value.replace(b"%d", b"%d" % number) for number in range(times)]
    connection = AsgiConnection([begin + b",".join(values) + end])

    _, turns = run_in_instant_time(
        with_loop_turns(answer_of_app(harness.front, scope(), connection))
    )

    assert (connection.status, refusal(connection)["code"]) == (413, "too_many_json_values")
    assert turns > 10
    assert harness.receipts == []


def test_a_large_conversation_of_many_messages_and_much_text_is_taken():
    text = 'if a[1] == {"k": [1, 2, 3]}: pass, ' * 100
    messages = [{"role": "user", "content": text} for _ in range(3_000)]
    sent = json.dumps({"model": "m", "messages": messages}).encode()

    harness = EndpointHarness(body=1 << 30, bodies=1 << 30)
    accepted = asyncio.run(answer_of_app(harness.front, scope(), AsgiConnection([sent])))

    assert accepted.status == 200


def test_embeddings_may_have_more_values_than_a_conversation():
    sent = b'{"model":"m","input":[' + b",".join([b"[1,2,3]"] * 100_000) + b"]}"
    harness = EndpointHarness(body=1 << 30, bodies=1 << 30)
    accepted = asyncio.run(
        answer_of_app(harness.front, scope("/v1/embeddings"), AsgiConnection([sent]))
    )

    assert accepted.status == 200
