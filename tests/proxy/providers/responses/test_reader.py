from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from proxy.providers.responses.reader import responses_reader
from proxy.providers.sse import parse_events
from tests.proxy.providers.responses.read_streams import (
    BODY,
    DONE,
    STREAM,
    WHOLE,
    UnchangedReader,
    chunk,
    part,
    read_stream,
    sse,
    whole,
)

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)


def checked_events(answer: bytes) -> list[dict[str, Any]]:
    """The events, each checked: the SDK can read it, and its name and number are right."""
    events = []
    for number, event in enumerate(parse_events(answer)):
        fields = orjson.loads(event.data)
        EVENT.validate_python(fields)
        assert (event.name, fields["sequence_number"]) == (fields["type"], number)
        events.append(fields)
    return events


def test_a_stream_of_chunks_is_the_events_of_a_response_in_order() -> None:
    kinds = [
        event["type"].removeprefix("response.") for event in checked_events(read_stream(*STREAM))
    ]

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
    last = checked_events(read_stream(*STREAM))[-1]["response"]

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
    events = checked_events(read_stream(*chunks, chunk(finish="stop"), DONE))
    deltas: dict[str, str] = {}
    for event in events:
        if event["type"].endswith(".delta"):
            deltas[event["item_id"]] = deltas.get(event["item_id"], "") + event["delta"]

    assert {item["id"]: _text(item) for item in events[-1]["response"]["output"]} == deltas


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
    events = checked_events(read_stream(*pieces))

    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert (events[0]["type"], events[-2]["code"]) == ("response.created", code)


def test_a_comment_of_the_upstream_is_passed_on_as_a_comment() -> None:
    reader = responses_reader(UnchangedReader(), BODY, streamed=True, created=1.0)

    assert reader.feed(b": thinking\n\n") == b": ping\n\n"
    assert reader.feed(b"") == b""
    assert reader.feed(b": thinking\n\n" + STREAM[0]).startswith(
        b": ping\n\nevent: response.created\n"
    )


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
    events = checked_events(read_stream(*map(sse, chunks)))

    assert events[-1]["type"] in ("response.completed", "response.incomplete", "response.failed")
