"""Tests of chat completions that broke off and go on."""

from typing import Any

import orjson
import pytest

from proxy.errors import UpstreamError
from proxy.providers.continuations.chat_seam import read_open_chat
from proxy.providers.sse import parse_events

Json = dict[str, Any]


def chunk(delta: Json, *, name: str = "chatcmpl-1", **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None} | fields
    document = {"id": name, "created": 7 if name == "chatcmpl-1" else 8, "choices": [choice]}
    return b"data: " + orjson.dumps(document) + b"\n\n"


def other(delta: Json, **fields: Any) -> bytes:
    return chunk(delta, name="chatcmpl-2", **fields)


OPENED = chunk({"role": "assistant", "content": ""}) + chunk({"content": "Hello wor"})
USAGE = b'data: {"id":"chatcmpl-2","created":8,"choices":[],"usage":{"prompt_tokens":3}}\n\n'
DONE = b"data: [DONE]\n\n"


def events_after(*pieces: bytes, delivered: bytes = OPENED) -> list[Json]:
    seam = read_open_chat(delivered).seam(echoes=False)
    run = b"".join(map(seam.feed, pieces))
    return [orjson.loads(event.data) for event in parse_events(run) if event.data != b"[DONE]"]


def test_the_text_so_far_is_that_of_all_chunks_and_comments_are_none():
    answer = read_open_chat(b": ping\n\n" + OPENED + chunk({"content": "ld, "}))

    assert answer.text == "Hello world, "
    assert answer.names == {"id": "chatcmpl-1", "created": 7}


def test_the_part_that_goes_on_has_the_first_ones_names_and_no_role():
    role, word = other({"role": "assistant", "content": ""}), other({"content": "ld!"})
    (chunk,) = events_after(role, word)

    assert (chunk["id"], chunk["created"]) == ("chatcmpl-1", 7)
    assert chunk["choices"][0]["delta"] == {"content": "ld!"}


def test_the_end_and_the_usage_are_those_of_the_last_part():
    ended, usage = events_after(other({}, finish_reason="stop") + USAGE + DONE)

    assert ended["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"] == {"prompt_tokens": 3}


def test_text_that_was_held_back_comes_before_the_end():
    (ended,) = events_after(
        other({"content": " "}), other({}, finish_reason="stop"), delivered=chunk({"content": "a "})
    )
    assert ended["choices"][0]["delta"].get("content", "") == ""
    echo = "Hello world, and all who live in it today"
    (ended,) = events_after(
        other({"content": echo[:5]}),
        other({}, finish_reason="stop"),
        delivered=chunk({"content": echo}),
    )
    assert ended["choices"][0]["delta"]["content"] == "Hello"


def test_tools_may_be_called_by_the_part_that_goes_on():
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    (called,) = events_after(other({"tool_calls": [call]}))

    assert called["choices"][0]["delta"]["tool_calls"] == [call]


def test_a_part_that_thinks_anew_is_no_continuation():
    with pytest.raises(UpstreamError) as raised:
        events_after(other({"reasoning_content": "Hm."}))

    assert raised.value.code == "continuation_unreadable"


@pytest.mark.parametrize(
    "delivered",
    [
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Hm."}),
        OPENED + chunk({"reasoning_content": "Hm."}),
        OPENED + chunk({"tool_calls": [{"index": 0}]}),
        OPENED + chunk({"refusal": "No."}),
        OPENED + chunk({"content": "b"}, index=1),
        OPENED + chunk({}, finish_reason="stop"),
        OPENED + chunk({"content": [{"type": "text"}]}),
        OPENED + DONE,
        OPENED + b'data: {"error":{"message":"no"}}\n\n',
        OPENED + b"data: {\n\n",
        OPENED + b'data: {"choices":3}\n\n',
    ],
)
def test_an_answer_that_is_more_than_open_text_is_not_continued(delivered):
    with pytest.raises(ValueError, match="cannot be gone on from"):
        read_open_chat(delivered)


def test_text_after_thinking_may_be_continued():
    assert read_open_chat(chunk({"reasoning_content": "Hm."}) + OPENED).text == "Hello wor"
