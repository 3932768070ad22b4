"""Tests of messages that broke off and go on."""

from typing import Any

import orjson
import pytest

from proxy.errors import UpstreamError
from proxy.providers.continuations.messages_seam import read_open_message
from proxy.providers.recalls.recall_filter import named_event
from proxy.providers.sse import parse_events

Json = dict[str, Any]


def event(kind: str, **fields: Any) -> bytes:
    return named_event({"type": kind, **fields})


def start(index: int, kind: str = "text", **fields: Any) -> bytes:
    block = {"type": kind, **({"text": ""} if kind == "text" else {}), **fields}
    return event("content_block_start", index=index, content_block=block)


def text(index: int, words: str) -> bytes:
    delta = {"type": "text_delta", "text": words}
    return event("content_block_delta", index=index, delta=delta)


def stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


def begin(name: str, **usage: int) -> bytes:
    return event("message_start", message={"id": name, "content": [], "usage": usage})


END = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}) + event(
    "message_stop"
)
OPENED = begin("msg_1", input_tokens=3) + start(0) + event("ping") + text(0, "Hello wor")
THOUGHT = (
    begin("msg_1")
    + start(0, "thinking", thinking="")
    + event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "Hm"})
    + event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "s"})
)


def events_after(*pieces: bytes, delivered: bytes = OPENED) -> list[Json]:
    seam = read_open_message(delivered).seam(echoes=False)
    run = b"".join(map(seam.feed, pieces))
    return [orjson.loads(event.data) for event in parse_events(run)]


def test_the_open_block_goes_on_without_a_second_start_of_message_or_block():
    part = begin("msg_2", input_tokens=9, output_tokens=1) + start(0) + text(0, "ld!") + stop(0)
    delta, stopped, ended, over = events_after(part, END)

    assert delta == {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "ld!"},
    }
    assert stopped == {"type": "content_block_stop", "index": 0}
    assert ended["usage"] == {"input_tokens": 9, "output_tokens": 5}
    assert over == {"type": "message_stop"}


def test_blocks_that_follow_are_numbered_after_the_open_one():
    delivered = THOUGHT + stop(0) + start(1) + text(1, "Let me see.")
    tool = start(1, "tool_use", id="t", name="f", input={})
    arguments = event(
        "content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "{}"}
    )
    numbers = [
        (event["type"], event["index"])
        for event in events_after(
            begin("msg_2"), start(0), text(0, " So"), stop(0), tool, arguments, stop(1),
            delivered=delivered,
        )
    ]  # fmt: skip

    assert numbers == [
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("content_block_start", 2),
        ("content_block_delta", 2),
        ("content_block_stop", 2),
    ]


def test_the_open_block_ends_before_a_tool_is_called_or_the_message_ends():
    tool = start(0, "tool_use", id="t", name="f", input={})

    assert [event["type"] for event in events_after(begin("msg_2"), tool)] == [
        "content_block_stop",
        "content_block_start",
    ]
    assert [event["type"] for event in events_after(begin("msg_2"), END)] == [
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_a_message_that_thinks_anew_is_no_continuation():
    with pytest.raises(UpstreamError) as raised:
        events_after(THOUGHT)

    assert raised.value.code == "continuation_unreadable"


@pytest.mark.parametrize(
    "delivered",
    [
        begin("msg_1"),
        begin("msg_1") + start(0),
        THOUGHT,
        THOUGHT + stop(0),
        OPENED + stop(0),
        OPENED + stop(0) + start(1, "tool_use", id="t", name="f", input={}),
        OPENED + event("content_block_delta", index=0, delta={"type": "citations_delta"}),
        OPENED + stop(0) + END,
        OPENED + event("error", error={"message": "no"}),
        OPENED + b"data: {\n\n",
    ],
)
def test_a_message_that_is_more_than_open_text_is_not_continued(delivered):
    with pytest.raises(ValueError, match="cannot be gone on from"):
        read_open_message(delivered)
