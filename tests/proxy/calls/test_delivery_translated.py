"""Streams whose upstream ends well while their translation for the caller does not."""

import orjson
import pytest

from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import ASKED, COMPLETION, STREAMED, chunk, event, stream, usage_chunk
from tests.fakes.call_dependencies import call, chat_alone, fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.gemini_answers import USAGE as GOOGLES
from tests.fakes.gemini_answers import answer, event_stream
from tests.fakes.upstream import FakeTransport, ScriptedAnswer
from tests.proxy.calls.test_delivery import CLAUDE, EXACT, MESSAGES, deliver

CLAUDES = Usage(input=30, cache_read=70, output=12)
RESPONSES_CALL = b'{"model":"m","stream":true,"input":"Hello"}'
MESSAGES_CALL = STREAMED[:-1] + b',"max_tokens":9}'
CHAT_ONLY = chat_alone(route())
UNREADABLE = b"data: {{{\n\n"
NAMELESS = event({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c"}]}}]})
STOPS = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
GOOD_END = (STOPS, usage_chunk(), event("[DONE]"))


@pytest.mark.parametrize("in_one_piece", [False, True])
@pytest.mark.parametrize(
    ("incoming", "by", "events", "last_event", "usage"),
    [
        (call(STREAMED), CLAUDE, (*MESSAGES[:5], UNREADABLE, *MESSAGES[5:]), b'"error":{', CLAUDES),
        (
            call(MESSAGES_CALL, endpoint="messages"),
            route(),
            (chunk("Hello"), UNREADABLE, *GOOD_END),
            b"event: error\n",
            EXACT,
        ),
        (
            call(MESSAGES_CALL, endpoint="messages"),
            route(),
            (chunk("Hello"), NAMELESS, *GOOD_END),
            b"event: error\n",
            EXACT,
        ),
        (
            call(RESPONSES_CALL, endpoint="responses"),
            CHAT_ONLY,
            (chunk("Hello"), UNREADABLE, *GOOD_END),
            b"event: response.failed\n",
            EXACT,
        ),
        (
            call(RESPONSES_CALL, endpoint="responses"),
            CLAUDE,
            (*MESSAGES[:5], UNREADABLE, *MESSAGES[5:]),
            b"event: response.failed\n",
            CLAUDES,
        ),
    ],
)
def test_a_stream_whose_translation_fails_ends_with_an_error_though_its_upstream_ended_well(
    incoming, by, events, last_event, usage, in_one_piece
):
    pieces = [b"".join(events)] if in_one_piece else events
    caller, receipt, _ = deliver(incoming, stream(*pieces), by)

    assert last_event in caller.last_piece
    assert not any(
        end in caller.body for end in (b"[DONE]", b"message_stop", b"response.completed")
    )
    assert (receipt.outcome, receipt.error) == (Outcome.BROKEN, "upstream_malformed")
    if in_one_piece:
        assert (receipt.usage, receipt.estimated) == (usage, False)


def test_a_stream_that_ends_in_its_translation_is_answered():
    good = (chunk("Hello"), *GOOD_END)
    for request, by, end in (
        (call(MESSAGES_CALL, endpoint="messages"), route(), b"message_stop"),
        (call(RESPONSES_CALL, endpoint="responses"), CHAT_ONLY, b"response.completed"),
    ):
        caller, receipt, _ = deliver(request, stream(*good), by)
        assert end in caller.body
        assert receipt.outcome is Outcome.ANSWERED


GEMINI = route("google", kind="gemini", model="gemini-x")
MALFORMED = answer(finish="MALFORMED_FUNCTION_CALL", usage=GOOGLES)
MALFORMED["candidates"][0]["finishMessage"] = "Malformed function call: weather(city=."


def test_a_gemini_stream_whose_call_is_malformed_ends_with_googles_reason():
    events = event_stream(answer({"text": "I look."}), MALFORMED)
    pieces = [part + b"\r\n\r\n" for part in events.split(b"\r\n\r\n")[:-1]]
    caller, receipt, _ = deliver(call(STREAMED), stream(*pieces), GEMINI)

    assert b'"content":"I look."' in caller.body
    assert b"weather(city=." in caller.last_piece
    assert b"[DONE]" not in caller.body
    assert (receipt.outcome, receipt.error) == (Outcome.BROKEN, "upstream_generation_failed")
    assert (receipt.usage, receipt.estimated) == (
        Usage(input=40, cache_read=60, output=7, reasoning=2),
        False,
    )


@pytest.mark.parametrize("body", [STREAMED, ASKED])
async def test_a_malformed_call_of_gemini_is_tried_elsewhere_before_the_answer_begins(body):
    is_stream = body is STREAMED
    failed = (
        stream(event_stream(MALFORMED)) if is_stream else ScriptedAnswer([orjson.dumps(MALFORMED)])
    )
    good = (
        stream(chunk("Hi", reason="stop"), *GOOD_END[1:])
        if is_stream
        else ScriptedAnswer([COMPLETION])
    )

    caller = FakeCaller()
    table, ledger = fake_dependencies(FakeTransport([failed, good]), GEMINI, route("two"))
    await serve_call(call(body), caller, table, Timeline(lambda: 0.0))
    first, second = ledger.receipts
    assert b"Hi" in caller.body
    assert (first.error, first.final) == ("upstream_generation_failed", False)
    assert first.usage is not None
    assert (second.outcome, second.final) == (Outcome.ANSWERED, True)


@pytest.mark.parametrize(
    ("incoming", "by"),
    [
        (call(MESSAGES_CALL, endpoint="messages"), route()),
        (call(RESPONSES_CALL, endpoint="responses"), CHAT_ONLY),
    ],
)
def test_a_malformed_call_by_googles_openai_endpoint_ends_with_an_error(incoming, by):
    stops = chunk("", reason="function_call_filter: MALFORMED_FUNCTION_CALL")
    caller, receipt, _ = deliver(incoming, stream(chunk("I look."), stops, *GOOD_END[1:]), by)

    assert b"MALFORMED_FUNCTION_CALL" in caller.last_piece
    assert (receipt.outcome, receipt.error) == (Outcome.BROKEN, "upstream_generation_failed")
