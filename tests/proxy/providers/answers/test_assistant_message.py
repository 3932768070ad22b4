"""An answer as the assistant's message that its caller sends back."""

from typing import Any

import orjson
import pytest

from proxy.providers.answers.assistant_message import assistant_message


def events(*deltas: dict[str, Any], index: int = 0) -> list[bytes]:
    chunks = [{"choices": [{"index": index, "delta": delta}]} for delta in deltas]
    return [b"data: " + orjson.dumps(chunk) + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]


def message_of_stream(*deltas: dict[str, Any], **how: Any) -> Any:
    message = assistant_message(events(*deltas, **how), streamed=True)
    return None if message is None else orjson.loads(message)


def whole(*messages: dict[str, Any]) -> Any:
    choices = [{"index": n, "message": message} for n, message in enumerate(messages)]
    message = assistant_message([orjson.dumps({"choices": choices})], streamed=False)
    return None if message is None else orjson.loads(message)


def test_the_text_of_a_stream_is_joined_and_reasoning_left_out():
    message = message_of_stream(
        {"role": "assistant", "content": None},
        {"reasoning_content": "Hm."},
        {"content": "Good "},
        {"content": "day"},
        {},
    )

    assert message == {"role": "assistant", "content": "Good day"}


def test_tool_calls_of_a_stream_are_put_together_by_their_index():
    message = message_of_stream(
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":1}'}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]},
    )

    assert message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_a_whole_answer_gives_the_message_of_its_one_choice():
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    other = {**call, "id": "b"}

    assert whole({"role": "assistant", "content": "Yes", "reasoning_content": "Hm"}) == {
        "role": "assistant",
        "content": "Yes",
    }
    message = whole({"role": "assistant", "content": None, "tool_calls": [call, other]})
    assert message["tool_calls"] == [call, other]


def test_an_answer_with_several_choices_gives_no_message():
    assert whole({"content": "a"}, {"content": "b"}) is None
    assert message_of_stream({"content": "a"}, index=1) is None


@pytest.mark.parametrize(
    "delta",
    [{}, {"content": ""}, {"refusal": "No."}, {"tool_calls": [{"index": 0, "id": "a"}]}],
)
def test_an_answer_without_text_or_whole_tool_calls_is_no_message(delta: dict[str, Any]):
    assert message_of_stream(delta) is None


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"choices":[{"delta":{"content":3}}]}', b"\xff"])
def test_an_unreadable_answer_is_no_message(data: bytes):
    assert assistant_message([b"data: " + data + b"\n\n"], streamed=True) is None
    assert assistant_message([data], streamed=False) is None


def test_usage_events_and_comments_between_are_passed_over():
    runs = [b": keep-alive\n\n", *events({"content": "a"})[:1], b'data: {"choices":[]}\n\n']

    assert orjson.loads(assistant_message(runs, streamed=True) or b"") == {
        "role": "assistant",
        "content": "a",
    }
