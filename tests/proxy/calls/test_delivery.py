import asyncio
import json
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.deadlines import CallWatchdog, WatchdogTimer
from proxy.calls.delivery import Delivery
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import CallContext
from proxy.calls.upstream_answer import UpstreamAnswer
from proxy.catalog.entries import Route
from proxy.providers.openai.adapter import OpenAIWire
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt, answering_model
from proxy.records.timeline import Timeline
from slo.usage import Usage
from tests.fakes.answers import ASKED, BEAT, COMPLETION, STREAMED, chunk, event, stream, usage_chunk
from tests.fakes.call_dependencies import call, fake_dependencies, route, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.upstream import After, FakeExchange, FakeTransport, ScriptedAnswer

EXACT = Usage(input=36, cache_read=64, output=10)
WANTS = STREAMED[:-1] + b',"stream_options":{"include_usage":true}}'
CLAUDE = route("claude", kind="anthropic", model="claude-x", max_output=1000)
WRONG = event({"type": "error", "error": {"message": "no"}})
ENDS = ["\n\n", "\r\n\r\n", "\r\r"]


def deliver(
    request: Call, script: ScriptedAnswer, *routes: Route
) -> tuple[FakeCaller, Receipt, FakeTransport]:
    """Return what the caller got, and what was kept of it."""

    async def work() -> tuple[FakeCaller, Receipt, FakeTransport]:
        transport, caller = FakeTransport([script]), FakeCaller()
        table, ledger = fake_dependencies(transport, *routes)
        await serve_call(request, caller, table, Timeline(lambda: 0.0))
        (receipt,) = ledger.receipts
        return caller, receipt, transport

    return asyncio.run(work())


def split_at(whole: bytes, places: list[int]) -> list[bytes]:
    """The bytes in chunks that end at these places."""
    ends = sorted({place % (len(whole) + 1) for place in places} | {0, len(whole)})
    return [whole[a:b] for a, b in pairwise(ends)]


texts = st.lists(st.text(max_size=8), min_size=1, max_size=5)
cuts = st.lists(st.integers(0, 10_000), max_size=20)
ends = st.sampled_from(ENDS)


def chat_stream(words: list[str], end: str, *more: bytes) -> bytes:
    """A chat stream that says this, with a keep-alive in it."""
    beat = f": beat{end}".encode()
    closing = chunk("", end, reason="stop")
    return b"".join([beat, *(chunk(t, end) for t in words), beat, closing, *more])


@pytest.mark.slow
@given(texts, ends, cuts)
def test_a_stream_that_nothing_was_asked_of_arrives_byte_for_byte(words, end, places):
    whole = chat_stream(words, end, usage_chunk(end), event("[DONE]", end))
    caller, receipt, transport = deliver(call(WANTS), stream(*split_at(whole, places)))

    assert caller.body == whole
    assert transport.sent[0][1].body == WANTS
    assert (receipt.outcome, receipt.usage, receipt.estimated) == (Outcome.ANSWERED, EXACT, False)


@given(texts, ends, cuts)
def test_a_stream_that_was_asked_for_usage_arrives_without_just_that(words, end, places):
    done = event("[DONE]", end)
    whole = chat_stream(words, end, usage_chunk(end), done)
    caller, receipt, _ = deliver(call(STREAMED), stream(*split_at(whole, places)))

    assert caller.body == chat_stream(words, end, done)
    assert (receipt.outcome, receipt.usage, receipt.estimated) == (Outcome.ANSWERED, EXACT, False)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(), values), st.booleans())
def test_unknown_fields_reach_the_upstream_and_come_back(fields, is_ascii):
    known_fields = {
        "model": "m",
        "stream": False,
        "user": "u",
        "metadata": {},
        "service_tier": "auto",
    }
    text = json.dumps(
        {**fields, **known_fields, "safety_identifier": None, "stream_options": None},
        ensure_ascii=is_ascii,
    )
    request = call(text.encode())
    answer = json.dumps({**fields, "id": "c", "usage": None, "error": None}).encode()
    caller, _, transport = deliver(request, ScriptedAnswer([answer]), route(model="theirs"))

    body = transport.sent[0][1].body
    assert json.loads(body) == json.loads(request.body) | {"model": "theirs"}
    assert list(json.loads(body)) == list(json.loads(request.body))
    assert caller.body == answer


def sse_event(**fields: Any) -> bytes:
    return f"event: {fields['type']}\ndata: {json.dumps(fields)}\n\n".encode()


MESSAGES = (
    sse_event(
        type="message_start",
        message={"id": "msg_1", "usage": {"input_tokens": 30, "cache_read_input_tokens": 70}},
    ),
    sse_event(type="ping"),
    sse_event(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
    sse_event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "Hel"}),
    sse_event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "lo"}),
    sse_event(type="content_block_stop", index=0),
    sse_event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 12}),
    sse_event(type="message_stop"),
)


@given(cuts)
def test_a_messages_stream_arrives_as_chat_whatever_its_chunks(places):
    caller, receipt, transport = deliver(
        call(WANTS), stream(*split_at(b"".join(MESSAGES), places)), CLAUDE
    )

    request_fields = json.loads(transport.sent[0][1].body)
    assert transport.sent[0][1].path == "/messages"
    assert (request_fields["model"], request_fields["stream"]) == ("claude-x", True)
    datas = [line[6:] for line in caller.body.split(b"\n") if line.startswith(b"data: ")]
    assert datas.pop() == b"[DONE]"
    chunks = [json.loads(data) for data in datas]
    deltas = [choice["delta"] for part in chunks for choice in part["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Hello"
    assert chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == 70
    assert receipt.usage == Usage(input=30, cache_read=70, output=12)
    assert (receipt.outcome, receipt.upstream_id) == (Outcome.ANSWERED, "msg_1")


def test_a_whole_messages_answer_arrives_as_a_chat_completion():
    message = {
        "id": "msg_1",
        "type": "message",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 30, "output_tokens": 5},
    }
    caller, receipt, _ = deliver(
        call(ASKED), ScriptedAnswer([json.dumps(message).encode()]), CLAUDE
    )

    completion = json.loads(caller.body)
    assert completion["choices"][0]["message"]["content"] == "Hi"
    assert completion["usage"]["total_tokens"] == 35
    assert completion["model"] == "m"
    assert caller.head is not None
    assert caller.head.model == "m"
    assert receipt.usage == Usage(input=30, output=5)


def test_the_answering_models_name_is_the_catalogs_and_the_bytes_are_the_upstreams():
    renamed = replace(route("azure", model="deployment-7"), name="azure/gpt-x")
    answer = COMPLETION.replace(b'"model":"m"', b'"model":"deployment-7"')
    caller, receipt, _ = deliver(call(ASKED), ScriptedAnswer([answer]), renamed)

    assert caller.head is not None
    assert caller.head.model == answering_model(receipt.route, receipt.model) == "gpt-x"
    assert caller.body == answer


def test_a_messages_stream_that_stops_midway_ends_with_an_error():
    caller, receipt, _ = deliver(call(STREAMED), stream(*MESSAGES[:4]), CLAUDE)

    assert b'"code":"upstream_cut_off"' in caller.pieces[-1]
    assert (receipt.outcome, receipt.error) == (Outcome.BROKEN, "upstream_cut_off")


def test_a_messages_stream_that_cannot_be_read_ends_with_an_error():
    caller, receipt, _ = deliver(
        call(STREAMED), stream(*MESSAGES[:4], b"data: {{{\n\n", *MESSAGES[4:]), CLAUDE
    )

    assert b'"error"' in caller.pieces[-1]
    assert b"[DONE]" not in caller.body
    assert receipt.outcome is Outcome.BROKEN


def test_text_before_an_unreadable_event_is_delivered_where_the_end_came_with_it():
    last = b"".join((*MESSAGES[:5], b"data: {{{\n\n", *MESSAGES[5:]))
    caller, receipt, _ = deliver(call(STREAMED), stream(last), CLAUDE)

    assert b'"content":"Hel"' in caller.body
    assert b'"content":"lo"' in caller.body
    assert receipt.usage == Usage(input=30, cache_read=70, output=12)


@pytest.mark.parametrize(
    ("mistake", "raised", "error"),
    [
        (ValueError("no number"), None, "upstream_malformed"),
        (KeyError("a bug"), KeyError, "gateway_interrupted"),
    ],
)
async def test_a_reader_that_stumbles_leaves_a_receipt(mistake, raised, error):
    class Stumbling:
        def feed(self, piece: bytes) -> bytes:
            raise mistake

        def end(self) -> bytes:
            return b""

    table, ledger = fake_dependencies(FakeTransport([]))
    caller, request, timeline = FakeCaller(), call(STREAMED), Timeline(lambda: 0.0)
    exchange = FakeExchange(stream(chunk("a")))
    answer = UpstreamAnswer(exchange, OpenAIWire(), timeline, generates=True)
    await answer.commit()
    with (
        pytest.raises(raised) if raised else nullcontext(),
        CallWatchdog(WatchdogTimer(table.tasks.start)) as watch,
    ):
        watch.watch_caller(caller.wait_until_gone)
        line = CallContext(request, caller, table, watch, timeline)
        info = AttemptInfo(call=request, route=route())
        delivery = Delivery(line, info, Stumbling(), answer)
        try:
            await delivery.deliver()
        finally:
            delivery.settle()
    receipt = ledger.receipts[0]
    assert (receipt.outcome, receipt.error, receipt.final) == (Outcome.BROKEN, error, True)
    assert caller.is_ended == (raised is None)


def test_notes_of_what_was_dropped_are_reported_and_kept():
    request = call(ASKED[:-1] + b',"seed":7}')
    message = b'{"id":"msg_1","content":[],"usage":{"input_tokens":3,"output_tokens":1}}'
    caller, receipt, _ = deliver(request, ScriptedAnswer([message]), CLAUDE)

    assert caller.head is not None
    assert caller.head.notes == receipt.notes
    assert any("seed" in note for note in receipt.notes)


def test_an_embedding_is_priced_as_its_upstream_says():
    answer = b'{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":9,"total_tokens":9}}'
    _, receipt, _ = deliver(call(ASKED, endpoint="embeddings"), ScriptedAnswer([answer]))

    assert (receipt.usage, receipt.estimated) == (Usage(input=9), False)


def test_no_text_is_looked_for_in_embeddings():
    answer = b'{"data":[{"embedding":[0.1]}],"content":"x","usage":{"prompt_tokens":9}}'
    _, receipt, _ = deliver(call(ASKED, endpoint="embeddings"), ScriptedAnswer([answer]))
    assert (receipt.usage, receipt.estimated) == (Usage(input=9), False)

    _, receipt, _ = deliver(call(ASKED), ScriptedAnswer([answer]))
    assert receipt.estimated


def test_an_answer_that_generates_nothing_has_its_reported_usage_or_none():
    reported = b'{"usage":{"input_tokens":9,"output_tokens":1}}'
    receipts = [
        deliver(call(ASKED, endpoint="images/edits"), ScriptedAnswer([answer]))[1]
        for answer in (reported, b"{}")
    ]

    assert [receipt.usage for receipt in receipts] == [Usage(input=9, output=1), None]
    assert not any(receipt.estimated for receipt in receipts)


def test_a_keep_alive_midway_is_passed_on():
    caller, _, _ = deliver(call(STREAMED), stream(chunk("a"), BEAT, event("[DONE]")))

    assert caller.pieces == [chunk("a"), BEAT, event("[DONE]")]


def test_the_last_event_and_the_end_of_a_stream_leave_together():
    caller, _, _ = deliver(call(STREAMED), stream(chunk("a"), event("[DONE]")))

    assert caller.pieces == [chunk("a"), event("[DONE]")]
    assert caller.last_piece == event("[DONE]")


def test_the_last_event_of_a_stream_does_not_wait_for_its_end():
    late = After(0.1, b": late\n\n")
    caller, _, _ = deliver(call(STREAMED), stream(chunk("a"), event("[DONE]"), late))

    assert caller.pieces == [chunk("a"), event("[DONE]"), late.piece]
    assert caller.last_piece == late.piece


@pytest.mark.parametrize("endpoint", ["responses/resp_1", "chat/completions"])
def test_an_answer_that_is_only_read_again_is_not_counted_again(endpoint):
    answer = b'{"id":"resp_1","usage":{"input_tokens":9,"output_tokens":1}}'
    request = call(b"", endpoint=endpoint, method="GET", fields=None)
    _, receipt, _ = deliver(request, ScriptedAnswer([answer]))

    assert (receipt.outcome, receipt.usage, receipt.estimated) == (Outcome.ANSWERED, None, False)


@pytest.mark.parametrize("events", [(WRONG, chunk("a")), (chunk("a"), WRONG, chunk("b")), ()])
def test_errors_in_a_log_of_events_are_passed_on_and_do_not_end_it(events):
    request = call(b"", endpoint="agents/sessions/as_1/events", method="GET", fields=None)
    caller, receipt, _ = deliver(request, stream(*events))

    assert b"".join(caller.pieces) == b"".join(events)
    assert receipt.outcome is Outcome.ANSWERED
