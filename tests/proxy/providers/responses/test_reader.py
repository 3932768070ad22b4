from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import httpx2
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from proxy.catalog.entries import Route, Upstream
from proxy.errors import UpstreamError
from proxy.providers.anthropic.adapter import AnthropicWire
from proxy.providers.responses.reader import responses_reader
from proxy.providers.responses.request import chat_body
from proxy.providers.sse import parse_events
from proxy.records.call import Call, Key
from proxy.records.request_fields import parse_request_fields

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
BODY = b'{"model":"m","input":"Hi","stream":true}'
BLOCKS = [{"type": "thinking", "thinking": "hm", "signature": "s=="}, {"type": "redacted_thinking"}]
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "total_tokens": 13,
    "prompt_tokens_details": {"cached_tokens": 6},
}
TOOLS: list[Any] = [{"type": "function", "name": "f", "parameters": {}, "strict": False}]


class UnchangedReader:
    """Chat bytes come as they are, some of them only at the end."""

    def __init__(self, last: bytes = b"") -> None:
        self.last = last

    def feed(self, piece: bytes) -> bytes:
        return piece

    def end(self) -> bytes:
        return self.last


def chunk(finish: str | None = None, **delta: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": None})


def sse(said: object) -> bytes:
    return b"data: " + orjson.dumps(said) + b"\n\n"


def part(index: int, arguments: str, **more: object) -> list[dict[str, Any]]:
    return [{"index": index, "function": {"arguments": arguments, **more}}]


DONE = b"data: [DONE]\n\n"
STREAM = [
    chunk(role="assistant", content=""),
    chunk(reasoning_content="h"),
    chunk(reasoning_content="m"),
    chunk(thinking_blocks=BLOCKS),
    chunk(content="Hel"),
    chunk(content="lo"),
    chunk(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}}]),
    chunk(tool_calls=part(0, '{"a"')),
    chunk(tool_calls=part(0, ":1}")),
    chunk(tool_calls=[{"index": 1, "id": "c2", "function": {"name": "f", "arguments": "{}"}}]),
    chunk(finish="tool_calls"),
    b"data:\n\n",
    sse({"id": "chatcmpl-1", "choices": [], "usage": USAGE}),
    DONE,
]
MESSAGE = {
    "role": "assistant",
    "content": "Hello",
    "reasoning_content": "hm",
    "thinking_blocks": BLOCKS,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ],
}
WHOLE = orjson.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}],
        "usage": USAGE,
    }
)


def streamed(*pieces: bytes, last: bytes = b"", body: bytes = BODY) -> bytes:
    reader = responses_reader(UnchangedReader(last), body, streamed=True, created=1.0)
    return b"".join([reader.feed(piece) for piece in pieces]) + reader.end()


def whole(*pieces: bytes, last: bytes = b"", body: bytes = BODY) -> bytes:
    reader = responses_reader(UnchangedReader(last), body, streamed=False, created=1.0)
    return b"".join([reader.feed(piece) for piece in pieces]) + reader.end()


def said(answer: bytes) -> list[dict[str, Any]]:
    """The events, each checked: the SDK can read it, and its name and number are right."""
    found = []
    for number, event in enumerate(parse_events(answer)):
        fields = orjson.loads(event.data)
        EVENT.validate_python(fields)
        assert (event.name, fields["sequence_number"]) == (fields["type"], number)
        found.append(fields)
    return found


def test_a_stream_of_chunks_is_the_events_of_a_response_in_order() -> None:
    kinds = [event["type"].removeprefix("response.") for event in said(streamed(*STREAM))]

    assert kinds == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


def test_a_stream_ends_in_what_the_whole_answer_is() -> None:
    last = said(streamed(*STREAM))[-1]["response"]

    assert last == orjson.loads(whole(WHOLE))


def test_the_whole_answer_is_what_the_sdk_calls_a_response() -> None:
    response = Response.model_validate_json(whole(WHOLE))

    assert (response.id, response.status, response.output_text) == ("resp_1", "completed", "Hello")
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert response.usage is not None
    assert response.usage.input_tokens_details.cached_tokens == 6


def test_an_answer_may_come_only_at_the_end() -> None:
    assert whole(last=WHOLE) == whole(WHOLE)
    assert streamed(*STREAM[:-2], last=STREAM[-2] + DONE) == streamed(*STREAM)


@given(st.sets(st.integers(1, len(STREAM) - 1)))
def test_any_runs_of_the_same_chunks_give_the_same_bytes(cuts: set[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    runs = [b"".join(STREAM[a:b]) for a, b in pairwise(places)]

    assert streamed(*runs) == streamed(*STREAM)


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(["content", "refusal", "reasoning_content", "call"]), max_size=12),
    st.data(),
)
def test_deltas_add_up_to_the_final_items(kinds: list[str], data: st.DataObject) -> None:
    text = st.text(min_size=1, max_size=4)
    index = st.integers(0, 2)
    chunks = [
        chunk(tool_calls=part(data.draw(index), data.draw(text), name="f"))
        if kind == "call"
        else chunk(**{kind: data.draw(text)})
        for kind in kinds
    ]
    found = said(streamed(*chunks, chunk(finish="stop"), DONE))
    deltas: dict[str, str] = {}
    for event in found:
        if event["type"].endswith(".delta"):
            deltas[event["item_id"]] = deltas.get(event["item_id"], "") + event["delta"]

    assert {item["id"]: _text(item) for item in found[-1]["response"]["output"]} == deltas


def _text(item: dict[str, Any]) -> str:
    parts = [*item.get("content", ()), *item.get("summary", ())]
    return str(item.get("arguments", "")) + "".join(p.get("text", p.get("refusal")) for p in parts)


@pytest.mark.parametrize(
    ("pieces", "code"),
    [
        ([chunk(content="Hi")], "upstream_cut_off"),
        ([], "upstream_cut_off"),
        ([b": keep-alive\n\n"], "upstream_cut_off"),
        ([DONE], "upstream_malformed"),
        ([chunk(content="Hi"), b"data: {oh\n\n", DONE], "upstream_malformed"),
        ([chunk(content="Hi"), b"data: \xff\n\n", DONE], "upstream_malformed"),
        ([chunk(content="Hi"), sse({"error": {"message": "oh", "code": "x"}}), DONE], "x"),
        ([sse({"error": {"message": "oh", "code": "x"}})], "x"),
    ],
)
def test_a_broken_stream_ends_with_an_error_and_a_failed_response(
    pieces: list[bytes], code: str
) -> None:
    found = said(streamed(*pieces))

    assert [event["type"] for event in found[-2:]] == ["error", "response.failed"]
    assert (found[0]["type"], found[-2]["code"]) == ("response.created", code)


def test_a_stream_that_only_forgot_its_last_line_is_complete() -> None:
    assert said(streamed(chunk(content="Hi", finish="stop")))[-1]["type"] == "response.completed"


@pytest.mark.parametrize("answer", [b"{oh", b"5", b"{}", b'{"choices":[]}', b'{"error":{}}'])
def test_a_whole_answer_that_is_not_chat_is_an_error_of_the_upstream(answer: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        whole(answer)

    assert (caught.value.status, caught.value.retryable) == (502, True)


def test_a_stream_is_kept_awake_by_comments_alone() -> None:
    reader = responses_reader(UnchangedReader(), BODY, streamed=True, created=1.0)

    assert reader.feed(b": thinking\n\n") == b": ping\n\n"
    assert reader.feed(b"") == b""
    assert reader.feed(b": thinking\n\n" + STREAM[0]).startswith(b"event: response.created\n")


CHOICE = ["choices", "delta", "message", "index", "content", "refusal", "tool_calls", "function"]
NAMES = [*CHOICE, "thinking_blocks", "finish_reason", "usage", "error", "id"]
CHUNKS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.lists(CHUNKS, max_size=4))
def test_any_json_upstream_still_makes_a_whole_stream(chunks: list[Any]) -> None:
    found = said(streamed(*map(sse, chunks)))

    assert found[-1]["type"] in ("response.completed", "response.incomplete", "response.failed")


# What the official SDK makes of it.


def client(answer: Callable[[bytes], bytes], kind: str) -> openai.OpenAI:
    def respond(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=answer(request.content), headers={"content-type": kind})

    return openai.OpenAI(
        api_key="k",
        base_url="http://gateway/v1",
        http_client=httpx2.Client(transport=httpx2.MockTransport(respond)),
    )


def streaming(pieces: Iterable[bytes]) -> openai.OpenAI:
    def answer(body: bytes) -> bytes:
        chat_body(body)
        return streamed(*pieces, body=body)

    return client(answer, "text/event-stream")


@pytest.mark.slow
def test_the_sdk_adds_a_stream_up_to_its_response() -> None:
    with streaming(STREAM).responses.stream(model="m", input="Hi", tools=TOOLS) as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        response = stream.get_final_response()

    assert "".join(texts) == response.output_text == "Hello"
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]


class Weather(BaseModel):
    """What a structured answer says."""

    degrees: int


def test_the_sdk_parses_structured_output() -> None:
    pieces = [chunk(content='{"degrees"'), chunk(content=":7}"), chunk(finish="stop"), DONE]
    with streaming(pieces).responses.stream(model="m", input="Hi", text_format=Weather) as stream:
        response = stream.get_final_response()

    assert response.output_parsed == Weather(degrees=7)


def test_the_sdk_raises_what_broke_the_stream() -> None:
    pieces = [chunk(content="Hi"), sse({"error": {"message": "oh", "code": "overloaded"}})]
    stream = streaming(pieces).responses.create(model="m", input="Hi", stream=True)

    with pytest.raises(openai.APIError, match="oh") as caught:
        list(stream)
    assert caught.value.code == "overloaded"


def test_a_conversation_with_tools_goes_round() -> None:
    """The SDK sends back what it got; the model sees its own words, calls and signed thoughts."""
    sent: list[dict[str, Any]] = []

    def answer(body: bytes) -> bytes:
        sent.append(orjson.loads(chat_body(body).body))
        return whole(WHOLE, body=body)

    sdk = client(answer, "application/json")
    history: list[Any] = [{"role": "user", "content": "Hi"}]
    response = sdk.responses.create(model="m", input=history, tools=TOOLS, store=False)
    history += response.output
    history += [
        {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
        for call in response.output
        if call.type == "function_call"
    ]
    sdk.responses.create(model="m", input=history, tools=TOOLS, store=False)

    kept = {name: value for name, value in MESSAGE.items() if name != "reasoning_content"}
    assert sent[1]["messages"] == [
        *sent[0]["messages"],
        kept,
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "tool", "tool_call_id": "c2", "content": "42"},
    ]
    assert {k: v for k, v in sent[1].items() if k != "messages"} == {
        k: v for k, v in sent[0].items() if k != "messages"
    }


# The Anthropic wire around it: what the upstream gets when the SDK sends its items back.

ROUTE = Route(
    name="a/claude",
    upstream=Upstream(name="a", kind="anthropic", base_url="http://a/v1"),
    model="claude",
    max_output=4096,
    traits=frozenset({"adaptive_thinking"}),
)
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s=="}
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}


def messages_stream() -> bytes:
    happenings: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 9}}},
        {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "s=="}},
        {"type": "content_block_stop"},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Look:"}},
        {"type": "content_block_stop"},
        {"type": "content_block_start", "content_block": CALLED | {"input": {}}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta",
                                                  "partial_json": '{"a":1}'}},
        {"type": "content_block_stop"},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"},
         "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return b"".join(map(sse, happenings))


def test_signed_thoughts_of_anthropic_go_round_through_the_sdk() -> None:
    sent: list[dict[str, Any]] = []

    def answer(body: bytes) -> bytes:
        call = Call(
            id="call_1",
            key=Key(id="key_1", team="t", team_name="T"),
            method="POST",
            endpoint="responses",
            headers={},
            body=body,
            fields=parse_request_fields(body),
            arrived=1.0,
        )
        prepared = AnthropicWire().request(call, ROUTE)
        sent.append(orjson.loads(prepared.body))
        assert prepared.reader is not None
        return prepared.reader.feed(messages_stream()) + prepared.reader.end()

    sdk = client(answer, "text/event-stream")
    effort: Any = {"effort": "high"}
    asked: list[Any] = [{"role": "user", "content": "Hi"}]
    with sdk.responses.stream(model="m", input=asked, tools=TOOLS, reasoning=effort) as stream:
        response = stream.get_final_response()
    result: Any = {"type": "function_call_output", "call_id": "toolu_1", "output": "42"}
    again = [*asked, *response.output, result]
    sdk.responses.create(model="m", input=again, tools=TOOLS, reasoning=effort, stream=True)

    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (9, 4)
    thought, words, call = sent[1]["messages"][1]["content"]
    assert (thought, words["text"], call) == (THOUGHT, "Look:", CALLED)
    assert sent[1]["messages"][2]["content"][0]["tool_use_id"] == "toolu_1"
