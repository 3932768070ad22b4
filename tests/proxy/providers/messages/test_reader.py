"""Chat answers, whole or streamed, as Anthropic's."""

from typing import Any

import orjson
import pytest
from anthropic.types import Message
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import UpstreamError
from proxy.providers.sse import parse_events
from tests.fakes.messages_calls import (
    Json,
    chat_stream,
    chunk,
    completion,
    message_of,
    messages_stream,
    part,
)

USAGE: Json = {
    "prompt_tokens": 100,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 60},
}
CALLS = [part(0, '{"a":1}', name="weather", id="c:0"), part(1, "{}", name="weather", id="c1")]
STREAM = chat_stream(
    b": keep-alive\n\n",
    chunk(role="assistant", content=""),
    chunk(reasoning_content="Hm"),
    b": keep-alive\n\n: keep-alive\n\n",
    chunk(content="Hé"),
    chunk(content="llo 🎉"),
    chunk(tool_calls=CALLS[:1]),
    chunk(tool_calls=CALLS[1:]),
    chunk("tool_calls"),
    usage=USAGE,
)


def names(run: bytes) -> list[str]:
    return [event.name for event in parse_events(run)]


def payloads(run: bytes) -> list[Json]:
    return [orjson.loads(event.data) for event in parse_events(run)]


def test_a_stream_has_anthropics_events_in_their_order() -> None:
    events = messages_stream(chat_stream(chunk(content="Hi"), chunk("stop"), usage=USAGE))
    first, *_, last_but_one, _ = payloads(events)

    assert names(events) == [
        "message_start", "content_block_start", "ping", "content_block_delta",
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert [payload["type"] for payload in payloads(events)] == names(events)
    assert first["message"]["id"] == "msg_7f"
    assert last_but_one == {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {
            "input_tokens": 40,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 60,
            "output_tokens": 9,
        },
    }


def test_comments_of_the_upstream_keep_the_callers_stream_awake() -> None:
    events = messages_stream(STREAM, thinking="shown")

    assert events.startswith(b": ping\n\nevent: message_start")
    assert names(events).count("ping") == 3


@given(st.lists(st.sampled_from(["text", "thought", "call", "piece", "comment"]), max_size=12))
def test_blocks_never_overlap_and_are_numbered_in_order(kinds: list[str]) -> None:
    made: dict[str, Any] = {
        "text": chunk(content="x"),
        "thought": chunk(reasoning_content="y"),
        "piece": chunk(tool_calls=[part(0, " ")]),
        "comment": b": c\n\n",
    }
    chunks = [
        chunk(tool_calls=[part(n, "{}", name="t", id=f"c{n}")]) if kind == "call" else made[kind]
        for n, kind in enumerate(kinds)
        if kind != "piece" or "call" in kinds[:n]
    ]
    try:
        events = payloads(messages_stream(chat_stream(*chunks, chunk("stop")), thinking="shown"))
    except UpstreamError:
        return  # a piece of a call that no chunk had begun has no name
    open_block, started = None, 0
    for event in events:
        if event["type"] == "content_block_start":
            assert (open_block, event["index"]) == (None, started)
            open_block, started = event["index"], started + 1
        elif event["type"] == "content_block_delta":
            assert event["index"] == open_block
        elif event["type"] == "content_block_stop":
            assert event["index"] == open_block
            open_block = None
    assert open_block is None
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]


def test_a_whole_completion_is_the_message_that_its_stream_would_be() -> None:
    events = message_of(
        completion("tool_calls", USAGE, content="Hello", reasoning_content="Hm", tool_calls=CALLS),
        thinking="shown",
    )

    assert Message.model_validate(events, strict=True).to_dict(mode="json") == events
    assert events["id"] == "msg_7f"
    assert [block["type"] for block in events["content"]] == [
        "thinking", "text", "tool_use", "tool_use",
    ]  # fmt: skip
    assert events["content"][2]["input"] == {"a": 1}
    assert events["stop_reason"] == "tool_use"
    assert events["usage"]["cache_read_input_tokens"] == 60


def test_the_stop_sequence_is_named_where_the_upstream_names_it() -> None:
    ended = chunk("stop")
    ended["choices"][0]["stop_reason"] = "END"
    run = chat_stream(chunk(content="Hi"), ended)

    assert payloads(messages_stream(run, stops=frozenset({"END"})))[-2]["delta"] == {
        "stop_reason": "stop_sequence",
        "stop_sequence": "END",
    }
    assert payloads(messages_stream(run))[-2]["delta"]["stop_reason"] == "end_turn"


@pytest.mark.parametrize("reason", [7, None, [], {}])
def test_an_engines_other_reasons_to_stop_are_no_stop_sequences(reason: Any) -> None:
    ended = chunk("stop")
    ended["choices"][0]["stop_reason"] = reason
    run = chat_stream(chunk(content="Hi"), ended)

    events = payloads(messages_stream(run, stops=frozenset({"END"})))
    assert events[-2]["delta"]["stop_reason"] == "end_turn"


def test_only_the_first_choice_is_told() -> None:
    other = chunk(content="other words")
    other["choices"][0]["index"] = 1

    assert b"other words" not in messages_stream(
        chat_stream(chunk(content="y"), other, chunk("stop"))
    )


def test_an_empty_answer_is_an_empty_message() -> None:
    assert message_of(completion(content=""))["content"] == []
    assert names(messages_stream(chat_stream(chunk(content=""), chunk("stop")))) == [
        "message_start", "message_delta", "message_stop",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "busy", "type": "overloaded_error"}, "overloaded_error"),
        ({"message": "slow down", "code": "rate_limit_exceeded"}, "rate_limit_error"),
        ("broken", "api_error"),
    ],
)
def test_an_error_midway_is_anthropics_and_the_last_event(error: Any, kind: str) -> None:
    events = messages_stream(
        chat_stream(chunk(content="Hi"), {"error": error}, chunk(content="no"))
    )

    assert names(events)[-1] == "error"
    assert payloads(events)[-1]["error"]["type"] == kind


def test_usage_is_estimated_until_the_upstream_reports_it() -> None:
    reported = payloads(
        messages_stream(
            chat_stream(chunk(content="Hi"), chunk("stop"), usage=USAGE), prompt_tokens=50
        )
    )
    silent = payloads(
        messages_stream(chat_stream(chunk(content="Hi " * 40), chunk("stop")), prompt_tokens=50)
    )

    assert reported[0]["message"]["usage"]["input_tokens"] == 50
    assert reported[-2]["usage"]["input_tokens"] == 40
    assert silent[-2]["usage"]["input_tokens"] == 50
    assert silent[-2]["usage"]["output_tokens"] >= 30


@pytest.mark.parametrize("odd", [[], "many", True, {"prompt_tokens": 10**12}])
def test_usage_is_estimated_where_the_reported_one_is_unreadable(odd: Any) -> None:
    events = payloads(
        messages_stream(
            chat_stream(chunk(content="Hi"), chunk("stop"), usage=odd), prompt_tokens=50
        )
    )

    assert events[-2]["usage"]["input_tokens"] == 50
