"""The events of a Responses stream as chat completion chunks."""

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from proxy.errors import UpstreamError
from proxy.providers.messages.reader import messages_reader
from proxy.providers.messages.settings import AnswerSettings
from proxy.providers.messages.signatures import reasoning_items, sealed_phase
from proxy.providers.openai.responses_answer import ResponsesReply, WholeResponse
from proxy.providers.openai.responses_stream import ResponsesChunks
from proxy.providers.sse import EventFramer, parse_events
from tests.fakes.responses_answers import (
    CALL,
    THOUGHT,
    Json,
    event_run,
    message_item,
    response,
    stream_of,
)

MAKER = "openai/gpt-x"
SECOND = {**CALL, "id": "fc_2", "call_id": "call_2", "arguments": '{"city": "Rom"}'}
WHOLE = response(THOUGHT, message_item("I lóok."), CALL, SECOND, message_item("Wait."))
STREAM = stream_of(WHOLE)


def reply(maker: str = MAKER, *, wants_usage: bool = True) -> ResponsesReply:
    return ResponsesReply(model="claude-x", created=7, maker=maker, wants_usage=wants_usage)


def reader(maker: str = MAKER, *, wants_usage: bool = True) -> ResponsesChunks:
    return ResponsesChunks(
        ResponsesReply(model="claude-x", created=7, maker=maker, wants_usage=wants_usage)
    )


def read(run: bytes, *, wants_usage: bool = True) -> bytes:
    stream = reader(wants_usage=wants_usage)
    return stream.feed(run) + stream.end()


def _data_of(run: bytes) -> list[bytes]:
    return [event.data for event in parse_events(run)]


def chunks(run: bytes) -> list[Json]:
    chunks_read = [
        orjson.loads(event.data) for event in parse_events(run) if event.data != b"[DONE]"
    ]
    for event in chunks_read:
        ChatCompletionChunk.model_validate(event, strict=True)
    return chunks_read


def test_a_stream_says_what_the_whole_answer_says() -> None:
    state = ChatCompletionStreamState()
    for chunk in chunks(read(STREAM)):
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    streamed = state.get_final_completion().to_dict()
    whole = orjson.loads(WholeResponse(reply("")).feed(orjson.dumps(WHOLE)))
    from_stream, from_whole = streamed["choices"][0]["message"], whole["choices"][0]["message"]  # type: ignore[index]

    assert from_stream["content"] == from_whole["content"] == "I lóok.\n\nWait."
    assert [call["function"]["arguments"] for call in from_stream["tool_calls"]] == [
        CALL["arguments"],
        SECOND["arguments"],
    ]
    assert streamed["choices"][0]["finish_reason"] == "tool_calls"  # type: ignore[index]
    assert streamed["usage"] == whole["usage"]


def test_reasoning_comes_sealed_where_it_stood_and_only_to_whom_sends_it_back() -> None:
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(read(STREAM)) if chunk["choices"]]
    (block,) = deltas[1]["thinking_blocks"]

    assert reasoning_items(block["signature"], MAKER) == [THOUGHT]
    assert b"thinking_blocks" not in reader("").feed(STREAM)


def test_the_phase_of_a_message_stands_before_its_words() -> None:
    fields = {**message_item("So."), "phase": "commentary"}
    whole = response(THOUGHT, fields, CALL)
    settings = AnswerSettings(model="claude-x", thinking="sealed")
    stream = messages_reader(reader(), settings, streamed=True)
    started = [
        event["content_block"]["type"]
        for event in map(orjson.loads, _data_of(stream.feed(stream_of(whole))))
        if event["type"] == "content_block_start"
    ]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(read(stream_of(whole)))[:-1]]
    blocks = [delta["thinking_blocks"][0] for delta in deltas if "thinking_blocks" in delta]

    assert started == ["thinking", "thinking", "text", "tool_use"]
    assert (sealed_phase(blocks[1]["signature"]) or {})["phase"] == "commentary"
    assert b"thinking_blocks" not in reader("").feed(stream_of(whole))


def test_parts_of_a_summary_are_one_block_of_thinking_with_its_seal() -> None:
    """A seal with other words than the open block would be a second block with all of them."""
    texts = ("First.", "Then.")
    item = {**THOUGHT, "summary": [{"type": "summary_text", "text": text} for text in texts]}
    blocks = [
        {"type": "response.reasoning_summary_text.delta", "summary_index": number, "delta": piece}
        for number, text in enumerate(texts)
        for piece in (text[:2], text[2:])
    ]
    done = {"type": "response.output_item.done", "item": item}
    end = {"type": "response.completed", "response": response(item)}
    shown = AnswerSettings(model="claude-x", thinking="shown")
    stream = messages_reader(reader(), shown, streamed=True)
    whole = messages_reader(
        WholeResponse(reply()),
        shown,
        streamed=False,
    )
    deltas = [
        event["delta"]
        for event in map(orjson.loads, _data_of(stream.feed(event_run(*blocks, done, end))))
        if event["type"] == "content_block_delta"
    ]
    (block,) = orjson.loads(whole.feed(orjson.dumps(response(item))))["content"]

    assert "".join(delta.get("thinking", "") for delta in deltas) == "First.\n\nThen."
    assert block["thinking"] == "First.\n\nThen."
    assert [delta["signature"] for delta in deltas if "signature" in delta] == [block["signature"]]
    assert reasoning_items(block["signature"], MAKER) == [item]


def test_a_message_without_words_leaves_no_paragraph() -> None:
    whole = response(message_item(""), message_item("Hi"), message_item(""))
    deltas = [
        chunk["choices"][0]["delta"] for chunk in chunks(read(stream_of(whole))) if chunk["choices"]
    ]

    assert "".join(delta.get("content") or "" for delta in deltas) == "Hi"


def test_usage_is_told_only_where_it_was_asked_for() -> None:
    assert b'"usage"' not in read(STREAM, wants_usage=False)
    assert read(STREAM).endswith(b"data: [DONE]\n\n")


def test_arguments_that_come_at_the_end_alone_are_not_lost() -> None:
    begun = {"type": "response.output_item.added", "item": {**CALL, "arguments": ""}}
    done = {"type": "response.output_item.done", "item": CALL}
    end = {"type": "response.completed", "response": response(CALL)}
    arguments = [
        chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
        for chunk in chunks(read(event_run(begun, done, end)))
        if chunk["choices"] and "tool_calls" in chunk["choices"][0]["delta"]
    ]

    assert arguments == ["", CALL["arguments"]]


def test_a_custom_call_is_told_as_one() -> None:
    item = {"type": "custom_tool_call", "call_id": "call_1", "name": "patch", "input": ""}
    begun = {"type": "response.output_item.added", "item": item}
    more = {"type": "response.custom_tool_call_input.delta", "delta": "*** Begin"}
    chunks_read = [
        orjson.loads(event.data) for event in parse_events(reader().feed(event_run(begun, more)))
    ]
    calls = [one["choices"][0]["delta"]["tool_calls"][0] for one in chunks_read[1:]]

    assert calls[0] == {
        "index": 0,
        "id": "call_1",
        "type": "custom",
        "custom": {"name": "patch", "input": ""},
    }
    assert calls[1] == {"index": 0, "custom": {"input": "*** Begin"}}


@pytest.mark.parametrize(
    "failure",
    [
        {
            "type": "response.failed",
            "response": {"error": {"code": "server_error", "message": "Lost it."}},
        },
        {"type": "error", "code": "server_error", "message": "Lost it."},
        {"type": "error", "error": {"type": "server_error", "message": "Lost it."}},
    ],
)
def test_a_failure_ends_the_stream_with_an_error(failure: Json) -> None:
    stream = reader()
    last = stream.feed(event_run(failure, {"type": "response.output_text.delta", "delta": "x"}))
    (event,) = parse_events(last)

    assert orjson.loads(event.data)["error"]["code"] == "upstream_error"
    assert stream.end() == b""


def test_a_stream_that_ends_midway_or_is_unreadable_is_an_error() -> None:
    cut = reader()
    cut.feed(event_run({"type": "response.output_text.delta", "delta": "x"}))
    with pytest.raises(UpstreamError, match="in the middle"):
        cut.end()
    with pytest.raises(UpstreamError, match="could not be read"):
        reader().feed(b"data: {\n\n")


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_any_chunking_gives_the_same_bytes(cuts: list[int]) -> None:
    framer, stream, pieces_read = EventFramer(), reader(), []
    for start, stop in pairwise([0, *sorted(cuts), len(STREAM)]):
        pieces_read.append(stream.feed(framer.feed(STREAM[start:stop])))

    assert b"".join([*pieces_read, stream.end()]) == read(STREAM)


def test_hosted_tools_leave_a_stream_readable_and_its_citations_stay() -> None:
    cited = {"type": "url_citation", "url": "http://a", "title": "A"}
    searched = {"type": "tool_search_call", "call_id": None, "arguments": {"paths": ["a"]}}
    delta, added = "response.output_text.delta", "response.output_text.annotation.added"
    done = response(searched, message_item("See."), message_item("There."))
    chunks_read = chunks(
        read(
            event_run(
                {"type": "response.output_item.added", "output_index": 0, "item": searched},
                {"type": delta, "output_index": 1, "content_index": 0, "delta": "See."},
                {"type": delta, "output_index": 2, "content_index": 0, "delta": "There."},
                {
                    "type": added,
                    "output_index": 2,
                    "content_index": 0,
                    "annotation": cited | {"start_index": 0, "end_index": 5},
                },
                {"type": added, "output_index": 2, "annotation": {"type": "file_citation"}},
                {"type": "response.completed", "response": done},
            )
        )
    )
    deltas = [choice["delta"] for chunk in chunks_read for choice in chunk["choices"]]
    words = "".join(chunk.get("content") or "" for chunk in deltas)
    (link,) = [note["url_citation"] for chunk in deltas for note in chunk.get("annotations") or ()]

    assert words == "See.\n\nThere."
    assert words[link["start_index"] : link["end_index"]] == "There"
