"""Tests of requests that go on from the beginning of an answer."""

from typing import Any

import orjson
import pytest

from proxy.errors import CallerError
from proxy.providers.continuations.continuation_requests import (
    continuing_request,
    has_open_message,
    read_open_answer,
    with_beginning,
)
from proxy.providers.port import PreparedRequest

ASKED = b'{"model":"m", "messages":[{"role":"user","content":"Hi"}],"stream":true}'
SO_FAR = {"role": "assistant", "content": "So"}


def request(body: dict[str, Any]) -> PreparedRequest:
    return PreparedRequest(method="POST", path="/chat", headers={}, body=orjson.dumps(body))


def begin_answer(*messages: dict[str, Any], **fields: Any) -> PreparedRequest:
    return request(
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}, *messages]} | fields
    )


def test_the_text_so_far_is_the_last_message_without_white_space_at_its_end():
    body = orjson.loads(with_beginning(ASKED, "chat/completions", "Well, \n"))

    assert body["messages"][-1] == {"role": "assistant", "content": "Well,"}
    assert body["stream"] is True


@pytest.mark.parametrize("asked", ["Hi", [{"role": "user", "content": "Hi"}]])
def test_a_responses_call_gets_the_text_as_its_last_item(asked):
    body = orjson.loads(
        with_beginning(orjson.dumps({"model": "m", "input": asked}), "responses", "Well,")
    )

    assert [item["role"] for item in body["input"]] == ["user", "assistant"]
    assert body["input"][1]["content"][0]["text"] == "Well,"


@pytest.mark.parametrize("body", [b"{}", b"[", b'{"messages":3}'])
def test_a_body_that_cannot_be_read_is_not_continued(body):
    with pytest.raises(CallerError):
        with_beginning(body, "messages", "Well,")


@pytest.mark.parametrize(
    ("continues", "fields", "message"),
    [
        ("last_message", {}, SO_FAR),
        (
            "continue_final_message",
            {"continue_final_message": True, "add_generation_prompt": False},
            SO_FAR,
        ),
        ("prefix", {}, SO_FAR | {"prefix": True}),
        ("prefix_echoed", {}, SO_FAR | {"prefix": True}),
    ],
)
def test_each_upstream_is_told_in_its_own_way_to_go_on(continues, fields, message):
    body = orjson.loads(continuing_request(begin_answer(SO_FAR), continues).body)

    assert body.pop("messages")[-1] == message
    assert body == {"model": "m"} | fields


@pytest.mark.parametrize(
    "prepared",
    [
        begin_answer(),
        begin_answer(SO_FAR | {"tool_calls": []}),
        begin_answer(SO_FAR, {"role": "user", "content": "continue"}),
        begin_answer(SO_FAR, thinking={"type": "enabled", "budget_tokens": 1024}),
        request({"contents": []}),
        request({"messages": []}),
    ],
)
def test_a_request_that_would_begin_a_new_message_is_not_sent(prepared):
    with pytest.raises(CallerError) as raised:
        continuing_request(prepared, "last_message")

    assert raised.value.code == "not_continuable"


def test_a_route_that_goes_on_in_no_way_gets_no_request():
    with pytest.raises(CallerError):
        continuing_request(begin_answer(SO_FAR, thinking={"type": "disabled"}), "")


@pytest.mark.parametrize(
    ("body", "endpoint", "expected"),
    [
        (ASKED, "chat/completions", False),
        (begin_answer(SO_FAR).body, "messages", True),
        (b'{"input":"Hi"}', "responses", False),
        (b'{"input":[{"role":"assistant","content":"So"}]}', "responses", True),
        (b"{", "messages", False),
    ],
)
def test_a_caller_may_have_begun_the_answer_himself(body, endpoint, expected):
    assert has_open_message(body, endpoint) is expected


def test_the_delivered_events_are_read_in_the_callers_api():
    chunk = b'data: {"id":"c","choices":[{"delta":{"content":"So"}}]}\n\n'

    answer = read_open_answer("chat/completions", chunk)
    assert answer is not None
    assert answer.text == "So"
    assert read_open_answer("messages", chunk) is None
