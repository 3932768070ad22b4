"""The pieces of a ``streamGenerateContent`` stream as chat completion chunks."""

from itertools import pairwise

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from proxy.errors import UpstreamError
from proxy.providers.chat.chat_answer import ChatReply
from proxy.providers.gemini.stream import ChunkStream
from proxy.providers.sse import EventFramer, parse_events
from tests.fakes.gemini_answers import USAGE, Json, answer, call, event_stream

STREAM = event_stream(
    answer({"text": "Hm", "thought": True}, usage={"promptTokenCount": 100}),
    answer({"text": "I lóok."}),
    answer(call(signature="c2ln"), call(id="c1")),
    answer({"text": "", "thoughtSignature": "dHh0"}, finish="STOP", usage=USAGE),
)


def reader(*, wants_usage: bool = True) -> ChunkStream:
    return ChunkStream(ChatReply("gemini-x", 7, wants_usage))


def read(run: bytes, *, wants_usage: bool = True) -> bytes:
    stream = reader(wants_usage=wants_usage)
    return stream.feed(run) + stream.end()


def chunks(run: bytes) -> list[Json]:
    chunks_read = [
        orjson.loads(event.data) for event in parse_events(run) if event.data != b"[DONE]"
    ]
    for event in chunks_read:
        ChatCompletionChunk.model_validate(event, strict=True)
    return chunks_read


def test_a_stream_is_a_chat_stream_with_its_end() -> None:
    run = read(STREAM)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(run) if chunk["choices"]]
    events = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]

    assert run.endswith(b"data: [DONE]\n\n")
    assert deltas[0]["role"] == "assistant"
    assert (deltas[1], deltas[2]) == ({"reasoning_content": "Hm"}, {"content": "I lóok."})
    assert [(call["index"], call["function"]["arguments"]) for call in events] == [
        (0, '{"city":"Bern"}'),
        (1, '{"city":"Bern"}'),
    ]
    assert events[0]["extra_content"] == {"google": {"thought_signature": "c2ln"}}
    assert deltas[-2] == {"extra_content": {"google": {"thought_signature": "dHh0"}}}
    assert chunks(run)[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks(run)[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 60}


def test_usage_is_told_only_where_it_was_asked_for() -> None:
    assert b'"usage"' not in read(STREAM, wants_usage=False)


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=9))
def test_any_chunking_gives_the_same_bytes(cuts: list[int]) -> None:
    frames, stream = EventFramer(), reader()
    pieces = [STREAM[a:b] for a, b in pairwise([0, *sorted(cuts), len(STREAM)])]

    runs = [run for piece in pieces if (run := frames.feed(piece))]
    assert b"".join(map(stream.feed, runs)) + stream.end() == read(STREAM)


def test_a_blocked_prompt_ends_as_filtered_content() -> None:
    chunks_read = chunks(read(event_stream({"promptFeedback": {"blockReason": "SAFETY"}})))

    assert chunks_read[-1]["choices"][0]["finish_reason"] == "content_filter"


def test_an_error_midway_is_the_last_event() -> None:
    broken = event_stream(answer({"text": "a"}), {"error": {"code": 503, "message": "busy"}})
    events = [orjson.loads(event.data) for event in parse_events(read(broken))]

    assert "error" in events[-1]


@pytest.mark.parametrize("run", [b"", event_stream(answer({"text": "a"})), b"data: <html>\n\n"])
def test_a_stream_that_is_cut_ends_with_an_error(run: bytes) -> None:
    with pytest.raises(UpstreamError):
        read(run)


def test_words_before_an_unreadable_event_are_told_first() -> None:
    stream = reader()

    assert b"abc" in stream.feed(event_stream(answer({"text": "abc"})) + b"data: <html>\n\n")
    with pytest.raises(UpstreamError):
        stream.end()
