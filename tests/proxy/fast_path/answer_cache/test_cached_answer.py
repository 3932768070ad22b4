"""Answers that may be given again, and their stored form."""

import json
from typing import Any

import msgspec
import pytest

from proxy.fast_path.answer_cache.cached_answer import (
    CachedAnswer,
    decode_answer,
    encode_answer,
    reason_not_kept,
)

ANSWER = CachedAnswer(
    team="team_1",
    feature="faq",
    key="k",
    started=1.0,
    status=200,
    media="application/json",
    model="m",
    notes=("a note",),
    body=b"{}",
    closing_at=-1,
    cost_nanos=5,
    call_id="call_1",
    tags=("kb",),
)
CALL = {"tool_calls": [{"id": "1", "function": {"name": "pay", "arguments": "{}"}}]}


def chat(reason: str | None, **message: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": reason}]}).encode()


def why(endpoint: str, body: bytes, *, reusable: bool = False) -> str:
    return reason_not_kept(endpoint, body, keeps_tool_calls=reusable)


def test_a_stored_answer_is_read_as_it_was():
    assert decode_answer(encode_answer(ANSWER)) == ANSWER


@pytest.mark.parametrize(
    "stored",
    [b"", b"\xff", b"\x90", encode_answer(msgspec.structs.replace(ANSWER, version=2))],
)
def test_an_answer_of_another_version_is_not_read(stored):
    assert decode_answer(stored) is None


def test_an_answer_weighs_more_than_its_body():
    assert ANSWER.size_bytes > len(ANSWER.body)
    assert ANSWER.is_whole


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("chat/completions", chat("stop", content="Hi")),
        ("chat/completions", b'data: {"choices":[{"finish_reason" : "stop"}]}\n\n'),
        ("completions", b'{"choices":[{"text":"Hi","finish_reason":"stop"}]}'),
        ("messages", b'{"type":"message","stop_reason":"end_turn"}'),
        ("messages", b'event: message_delta\ndata: {"delta":{"stop_reason":"stop_sequence"}}\n\n'),
        ("responses", b'{"object":"response","status":"completed","error":null}'),
        ("embeddings", b'{"data":[]}'),
        (
            "chat/completions",
            chat("stop", content=json.dumps({"finish_reason": "length", "tool_calls": [{}]})),
        ),
    ],
)
def test_an_answer_that_came_to_its_end_may_be_given_again(endpoint, body):
    assert why(endpoint, body) == ""


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("chat/completions", chat("length", content="Hi")),
        ("chat/completions", chat("content_filter", content="")),
        ("chat/completions", chat(None, content="Hi")),
        ("chat/completions", chat("stop") + chat("length")),
        ("messages", b'{"stop_reason":"max_tokens"}'),
        ("messages", b'{"stop_reason":"refusal"}'),
        ("responses", b'{"status":"incomplete","output":[{"status":"completed"}]}'),
        ("responses", b'{"status":"in_progress"}'),
    ],
)
def test_an_unfinished_answer_is_never_given_again(endpoint, body):
    assert why(endpoint, body) == why(endpoint, body, reusable=True) == "unfinished"


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("chat/completions", chat("tool_calls", **CALL)),
        ("chat/completions", chat("stop", **CALL)),
        ("chat/completions", chat("function_call", function_call={"name": "pay"})),
        ("messages", b'{"content":[{"type":"tool_use"}],"stop_reason":"tool_use"}'),
        ("responses", b'{"status":"completed","output":[{"type":"function_call"}]}'),
        ("responses", b'{"status":"completed","output":[{"type": "web_search_call"}]}'),
    ],
)
def test_a_tool_call_is_given_again_only_where_the_feature_declares_it(endpoint, body):
    assert why(endpoint, body) == "tool call"
    assert why(endpoint, body, reusable=True) == ""
