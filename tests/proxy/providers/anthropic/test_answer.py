"""A Messages answer as a chat completion."""

from typing import Any

import orjson
import pytest

from proxy.errors import UpstreamError
from proxy.providers.anthropic.answer import WholeAnswer
from proxy.providers.chat.chat_answer import ChatReply


def _completion(*content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    body = {"id": "msg_1", "type": "message", "content": content, "stop_reason": "end_turn"}
    reader = WholeAnswer(ChatReply("public", 1_700_000_000))
    completion: dict[str, Any] = orjson.loads(reader.feed(orjson.dumps(body | fields)))
    assert reader.end() == b""
    return completion


def _message(*content: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = _completion(*content)["choices"][0]["message"]
    return message


def _text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def test_an_answer_becomes_a_completion_under_the_name_the_caller_used() -> None:
    usage = {"input_tokens": 3, "output_tokens": 2, "service_tier": "standard"}
    completion = _completion(_text("hello "), _text("you"), usage=usage, model="claude-x")

    assert completion["usage"].pop("prompt_tokens") == 3
    assert completion.pop("usage")["completion_tokens"] == 2
    assert completion == {
        "id": "msg_1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "public",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hello you", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "service_tier": "default",
    }


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("compaction", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("a_new_one", "stop"),
        (None, "stop"),
    ],
)
def test_each_stop_reason_has_its_finish(reason: str | None, finish: str) -> None:
    assert _completion(_text("a"), stop_reason=reason)["choices"][0]["finish_reason"] == finish


def test_calls_of_tools_carry_their_input_byte_for_byte() -> None:
    body = b'{"content":[{"type":"tool_use","id":"t1","name":"f","input":{"b": 1,  "a":2.0}}]}'
    completion = orjson.loads(WholeAnswer(ChatReply("m", 0)).feed(body))
    message = completion["choices"][0]["message"]

    assert message["content"] is None
    assert message["tool_calls"] == [
        {
            "id": "t1",
            "type": "function",
            "function": {"name": "f", "arguments": '{"b": 1,  "a":2.0}'},
        }
    ]
    assert "usage" not in completion


def test_a_call_without_input_has_no_arguments() -> None:
    message = _message({"type": "tool_use", "id": "t", "name": "f"}, {"type": "server_tool_use"})

    assert message["tool_calls"][0]["function"]["arguments"] == "{}"
    assert len(message["tool_calls"]) == 1


def test_thinking_is_readable_and_also_there_unmodified() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig==", "later_field": 1}
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    message = _message(thought, hidden, _text("so"))

    assert message["reasoning_content"] == "hm"
    assert message["thinking_blocks"] == [thought, hidden]
    assert message["content"] == "so"


def test_an_answer_without_blocks_has_empty_content() -> None:
    assert _message() == {"role": "assistant", "content": "", "refusal": None}


def test_citations_of_pages_become_annotations_over_their_text() -> None:
    page = {"type": "web_search_result_location", "url": "https://x.test", "title": None}
    place = {"type": "char_location", "document_index": 0}
    message = _message(_text("ab"), _text("cde", citations=[page, place]))

    assert message["annotations"] == [
        {
            "type": "url_citation",
            "url_citation": {
                "url": "https://x.test",
                "title": "",
                "start_index": 2,
                "end_index": 5,
            },
        }
    ]


@pytest.mark.parametrize("tier", ["batch", None, 5, []])
def test_a_tier_openai_does_not_know_is_not_told(tier: object) -> None:
    assert "service_tier" not in _completion(usage={"service_tier": tier})


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"content": "x"}', b'{"content": [5]}', b'{"id": "\xff"}']
)
def test_an_answer_that_cannot_be_read_is_the_upstreams_failure(body: bytes) -> None:
    with pytest.raises(UpstreamError) as caught:
        WholeAnswer(ChatReply("m", 0)).feed(body)

    assert caught.value.code == "upstream_malformed"
    assert caught.value.retryable


def test_an_error_in_place_of_an_answer_is_reported_as_one() -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'
    with pytest.raises(UpstreamError) as caught:
        WholeAnswer(ChatReply("m", 0)).feed(body)

    assert caught.value.status == 503


def test_a_compaction_stands_opaque_in_its_place() -> None:
    block = {"type": "compaction", "content": "so far", "signature": "c2ln", "later": None}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    message = _message(block, thought, _text("on"))

    assert message["thinking_blocks"] == [block, thought]
    assert (message["content"], message["reasoning_content"]) == ("on", "hm")
    assert _message(block)["content"] == ""


def test_text_between_opaque_blocks_keeps_its_place_among_them() -> None:
    first = {"type": "thinking", "thinking": "a", "signature": "s"}
    later = {"type": "redacted_thinking", "data": "x"}
    call = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    blocks = _message(first, _text("so"), call, later, _text("on"))["thinking_blocks"]

    assert [block["type"] for block in blocks] == [
        "thinking",
        "said",
        "called",
        "redacted_thinking",
    ]
    assert (blocks[0], blocks[-1]) == (first, later)


def test_an_answer_tells_what_was_edited_before_it() -> None:
    edits = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2}]}

    assert _completion(_text("a"), context_management=edits)["context_management"] == edits
    assert "context_management" not in _completion(context_management={"applied_edits": []})
    assert "context_management" not in _completion(context_management=[1])
