"""A Messages stream as chat completion chunks."""

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from proxy.errors import UpstreamError
from proxy.providers.anthropic.answer import WholeAnswer
from proxy.providers.anthropic.stream import AnswerStream
from proxy.providers.chat.chat_answer import ChatReply
from proxy.providers.sse import EventFramer, parse_events
from tests.proxy.providers.anthropic.messages_streams import START, event, stream

_THOUGHT = {"type": "thinking", "thinking": "let me see", "signature": "c2ln"}
_HIDDEN = {"type": "redacted_thinking", "data": "opaque=="}
_CALL: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "f", "input": {"city": "Zürich"}}
_BARE = {"type": "tool_use", "id": "t2", "name": "g", "input": {}}
_PAGE = {"type": "web_search_result_location", "url": "https://x.test", "title": "X"}
_CITED = {"type": "text", "text": "see 👋 there", "citations": [_PAGE]}
_TEXT = {"type": "text", "text": "hello"}
_BLOCKS: list[dict[str, Any]] = [_THOUGHT, _HIDDEN, _TEXT, _CITED, _CALL, _BARE]


def _reader(*, wants_usage: bool = False) -> AnswerStream:
    return AnswerStream(ChatReply("public", 1_700_000_000, wants_usage))


def _chunks(given: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(one.data) for one in parse_events(given) if one.data != b"[DONE]"]


def _message_of(given: bytes) -> dict[str, Any]:
    """The message a client puts together from the chunks."""
    message: dict[str, Any] = {"content": ""}
    for chunk in _chunks(given):
        for choice in chunk["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            for name in ("reasoning_content", "thinking_blocks", "annotations"):
                if name in delta:
                    message[name] = message[name] + delta[name] if name in message else delta[name]
            for call in delta.get("tool_calls", []):
                calls = message.setdefault("tool_calls", [])
                if call["index"] == len(calls):
                    calls.append({"id": call["id"], "name": call["function"]["name"], "args": ""})
                calls[call["index"]]["args"] += call["function"]["arguments"]
    return message


def test_a_stream_says_what_the_whole_answer_says() -> None:
    reader = _reader()
    given = reader.feed(stream(_BLOCKS, "tool_use")) + reader.end()
    body = orjson.dumps({"id": "msg_1", "content": _BLOCKS, "stop_reason": "tool_use"})
    whole = orjson.loads(WholeAnswer(ChatReply("public", 0)).feed(body))
    choice = whole["choices"][0]
    message = _message_of(given)

    assert message["content"] == choice["message"]["content"]
    assert message["reasoning_content"] == choice["message"]["reasoning_content"]
    assert choice["message"]["thinking_blocks"] == [_THOUGHT, _HIDDEN]
    assert message["thinking_blocks"] == [_THOUGHT, _HIDDEN | {"index": 1}]
    assert message["annotations"] == choice["message"]["annotations"]
    assert [(call["id"], call["name"]) for call in message["tool_calls"]] == [
        ("t1", "f"),
        ("t2", "g"),
    ]
    assert [orjson.loads(call["args"]) for call in message["tool_calls"]] == [_CALL["input"], {}]
    assert _chunks(given)[-1]["choices"][0]["finish_reason"] == choice["finish_reason"]
    assert given.endswith(b"data: [DONE]\n\n")


@given(st.lists(st.sampled_from([*_BLOCKS, {"type": "compaction", "content": "c"}]), max_size=8))
def test_a_stream_tells_the_order_that_the_whole_answer_tells(blocks: list[dict[str, Any]]) -> None:
    reader = _reader()
    entries = _message_of(reader.feed(stream(blocks)) + reader.end()).get("thinking_blocks", [])
    bare = [{name: entry[name] for name in entry if name != "index"} for entry in entries]
    whole = WholeAnswer(ChatReply("public", 0)).feed(orjson.dumps({"content": blocks}))

    assert bare == orjson.loads(whole)["choices"][0]["message"].get("thinking_blocks", [])
    assert [entry.get("index", 0) for entry in entries] == list(range(len(entries)))


@pytest.mark.slow
@given(st.lists(st.sampled_from([_THOUGHT, _HIDDEN, _TEXT, _BARE]), max_size=6))
def test_the_official_client_puts_any_order_together(blocks: list[dict[str, Any]]) -> None:
    reader, state = _reader(), ChatCompletionStreamState()
    given = reader.feed(stream(blocks)) + reader.end()
    for chunk in _chunks(given):
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    message = state.get_final_completion().choices[0].message.model_dump()

    assert message.get("thinking_blocks") == _message_of(given).get("thinking_blocks")


def test_every_chunk_is_one_the_official_client_reads() -> None:
    chunks = _chunks(_reader(wants_usage=True).feed(stream(_BLOCKS)))
    read = [ChatCompletionChunk.model_validate(chunk) for chunk in chunks]

    assert {(chunk.id, chunk.model, chunk.created) for chunk in read} == {
        ("msg_1", "public", 1_700_000_000)
    }
    assert read[0].choices[0].delta.role == "assistant"


def test_usage_comes_in_the_last_chunk_and_only_when_asked_for() -> None:
    with_usage = _chunks(_reader(wants_usage=True).feed(stream([_TEXT])))
    unasked = _chunks(_reader().feed(stream([_TEXT])))

    assert with_usage[-1]["choices"] == []
    assert with_usage[-1]["usage"]["prompt_tokens"] == 129
    assert with_usage[-1]["usage"]["completion_tokens"] == 30
    assert with_usage[-1]["usage"]["prompt_tokens_details"] == {
        "cached_tokens": 100,
        "cache_write_tokens": 20,
    }
    assert all(chunk["usage"] is None for chunk in with_usage[:-1])
    assert all("usage" not in chunk for chunk in unasked)


def test_null_at_the_end_takes_no_count_back() -> None:
    start = event("message_start", message={"id": "m", "usage": START})
    nothing = dict.fromkeys(START)
    last = event("message_delta", delta={"stop_reason": "end_turn"}, usage=nothing)
    run = start + last + event("message_stop")
    usage = _chunks(_reader(wants_usage=True).feed(run))[-1]["usage"]

    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (129, 1)


def test_a_stream_that_counts_nothing_has_no_usage_chunk() -> None:
    run = event("message_start", message={"id": "m"}) + event("message_stop")
    chunks = _chunks(_reader(wants_usage=True).feed(run))

    assert [len(chunk["choices"]) for chunk in chunks] == [1, 1]


def _split_at(run: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(run) + 1) for cut in cuts), len(run)]
    return [run[a:b] for a, b in pairwise(edges)]


def _outcome(pieces: list[bytes]) -> tuple[bytes, str]:
    """All that the caller gets, and the code of what went wrong."""
    reader, given = _reader(wants_usage=True), b""
    try:
        for piece in pieces:
            given += reader.feed(piece)
        given += reader.end()
    except UpstreamError as error:
        return given, error.code
    return given, ""


_ENDS = st.sampled_from([b"", b"data: {oops\n\n", event("error", error={}), event("news")])


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(_BLOCKS), max_size=5),
    _ENDS,
    st.integers(0, 20),
    st.lists(st.integers(0, 100_000), max_size=20),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_any_chunking_gives_the_caller_the_same_bytes(
    blocks: list[dict[str, Any]], odd: bytes, place: int, cuts: list[int], newline: bytes
) -> None:
    events = [one + b"\n\n" for one in stream(blocks).split(b"\n\n")[:-1]]
    run = b"".join([*events[:place], odd, *events[place:]]).replace(b"\n", newline)
    frames = EventFramer()

    assert _outcome([frames.feed(chunk) for chunk in _split_at(run, cuts)]) == _outcome([run])


def test_a_ping_keeps_the_way_awake_and_says_nothing() -> None:
    assert _reader().feed(event("ping")) == b": ping\n\n"


@pytest.mark.parametrize(
    "run",
    [
        event("vendor_news", text="x"),
        event("message_start"),
        event("content_block_start"),
        event("content_block_delta"),
        event("content_block_delta", delta={"type": "new_delta"}),
        event("content_block_delta", delta={"type": "input_json_delta", "partial_json": "{"}),
        event("content_block_delta", delta={"type": "citations_delta"}),
        event("content_block_start", content_block={"type": "server_tool_use"}),
        event("content_block_stop"),
        event("message_delta"),
    ],
)
def test_events_we_do_not_know_are_passed_over(run: bytes) -> None:
    assert _reader().feed(run) == b""


def test_text_in_a_blocks_start_event_is_content() -> None:
    run = event("content_block_start", content_block={"type": "text", "text": "well"})

    assert _chunks(_reader().feed(run))[0]["choices"][0]["delta"] == {"content": "well"}


def test_a_call_told_whole_at_its_start_keeps_its_arguments() -> None:
    run = event("content_block_start", content_block=_CALL) + event("content_block_stop")
    calls = _message_of(_reader().feed(run))["tool_calls"]

    assert orjson.loads(calls[0]["args"]) == _CALL["input"]


def test_an_error_within_the_stream_ends_it_in_openais_shape() -> None:
    reader = _reader()
    error = event("error", error={"type": "overloaded_error", "message": "inner sk-ant-abcdef12"})
    given = reader.feed(event("message_start", message={"id": "m"}) + error + stream([_TEXT]))

    assert _chunks(given)[-1]["error"]["code"] == "upstream_overloaded"
    assert b"sk-ant" not in given
    assert b"[DONE]" not in given
    assert reader.feed(stream([_TEXT])) == reader.end() == b""


@pytest.mark.parametrize(
    "data", [b"{oops", b"[]", b'{"type": 5}', b'{"type": "message_start", "message": 5}', b"\xff"]
)
def test_an_event_that_cannot_be_read_fails_once_all_before_it_was_given(data: bytes) -> None:
    reader = _reader()
    given = reader.feed(event("ping") + b"data: " + data + b"\n\n" + event("ping"))

    assert given == b": ping\n\n"
    with pytest.raises(UpstreamError, match="could not be read"):
        reader.feed(event("ping"))
    with pytest.raises(UpstreamError, match="could not be read"):
        reader.end()


def test_a_stream_cut_off_is_the_upstreams_failure() -> None:
    reader = _reader()
    run = stream([_TEXT])
    reader.feed(run[: run.index(b"event: message_delta")])
    with pytest.raises(UpstreamError) as caught:
        reader.end()

    assert caught.value.code == "upstream_cut_off"


def test_a_stream_that_says_why_it_stops_but_not_that_it_has_is_whole() -> None:
    whole, early = _reader(wants_usage=True), _reader(wants_usage=True)
    run = stream([_TEXT])

    begun = early.feed(run[: -len(event("message_stop"))])
    assert begun + early.end() == whole.feed(run) + whole.end()


def test_an_error_event_without_an_error_is_still_one() -> None:
    assert _chunks(_reader().feed(event("error")))[0]["error"]["code"] == "upstream_error"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "compaction", "content": "so far"},
        {"type": "compaction", "content": None},
        {"type": "compaction", "content": "so far", "encrypted_content": "b3BhcXVl"},
        {"type": "compaction", "content": "on demand, told whole", "signature": "c2ln"},
    ],
)
def test_a_compaction_is_reported_whole_when_it_ends(block: dict[str, Any]) -> None:
    reader = _reader()
    given = reader.feed(stream([block, _TEXT], "compaction")) + reader.end()

    assert _message_of(given) == {"content": "hello", "thinking_blocks": [block]}
    assert _chunks(given)[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("wants_usage", [True, False])
def test_a_stream_tells_at_its_end_what_was_edited_before_it(*, wants_usage: bool) -> None:
    edits = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2}]}
    reader = _reader(wants_usage=wants_usage)
    run = event("message_delta", delta={"stop_reason": "end_turn"}, context_management=edits)
    chunks = _chunks(reader.feed(run + event("message_stop")) + reader.end())

    assert chunks[0]["context_management"] == edits
    assert chunks[0]["choices"][0]["finish_reason"] == "stop"
    ChatCompletionChunk.model_validate(chunks[0])
