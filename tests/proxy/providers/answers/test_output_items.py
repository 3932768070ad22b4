"""Output items of Responses answers, as callers send them back."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.answers.output_items import items_of_message, output_items
from proxy.providers.responses.request import chat_body

MESSAGE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Good day", "annotations": []}],
}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


def whole(*items: Any) -> bytes:
    return orjson.dumps({"id": "resp_1", "object": "response", "output": items})


def event(kind: str, **fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def test_the_items_of_a_whole_answer_stay_as_they_were_written():
    reasoning = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text"}]}
    items = output_items([whole(reasoning, MESSAGE, CALL)], streamed=False)

    assert orjson.loads(items or b"") == [reasoning, MESSAGE, CALL]


@pytest.mark.parametrize("last", ["response.completed", "response.incomplete"])
def test_the_items_of_a_stream_are_those_of_its_last_event(last: str):
    runs = [
        event("response.created", response={"output": []}),
        event("response.output_text.delta", delta="response.completed") + event("ping"),
        event(last, response={"output": [MESSAGE]}) + b"data: [DONE]\n\n",
    ]

    assert orjson.loads(output_items(runs, streamed=True) or b"") == [MESSAGE]
    assert output_items(runs[:2], streamed=True) is None


@pytest.mark.parametrize(
    "answer",
    [
        b"{",
        b"{}",
        b'{"output":[]}',
        b'{"output":3}',
        whole(MESSAGE, {"type": "web_search_call", "id": "ws_1"}),
    ],
)
def test_an_answer_without_items_or_with_others_than_a_caller_sends_back_is_not_known(
    answer: bytes,
):
    assert output_items([answer], streamed=False) is None


def test_an_answer_in_chat_becomes_the_items_that_its_caller_got():
    fields = {"role": "assistant", "content": "Good day", "tool_calls": [_TOOL_CALL]}
    message = orjson.dumps(fields)

    assert orjson.loads(items_of_message(message) or b"") == [
        {"type": "message", "role": "assistant", "content": "Good day"},
        CALL,
    ]
    assert items_of_message(None) is None
    assert items_of_message(b'{"content":null}') is None


_TOOL_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@given(st.text(min_size=1, max_size=9), st.sampled_from([{}, {"tool_calls": [_TOOL_CALL]}]))
def test_items_of_a_chat_message_are_translated_to_the_same_message_again(
    text: str, tools: dict[str, Any]
):
    message = {"role": "assistant", "content": text, **tools}
    items = orjson.loads(items_of_message(orjson.dumps(message)) or b"")
    body = chat_body(orjson.dumps({"model": "m", "input": items})).body

    assert orjson.loads(body)["messages"] == [message]
