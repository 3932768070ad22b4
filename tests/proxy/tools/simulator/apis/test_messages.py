"""The answers of Anthropic's messages."""

from typing import Any

import orjson

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.tools.simulator.apis.messages import answer, counts, events, midway
from proxy.tools.simulator.replies import ModelReply, ReplyRequest, signature
from slo.usage import Usage
from tests.proxy.tools.simulator.scene import CALLS, scripted_reply

PROMPT = CachedPrompt(blocks=(TokenBlock(role="user", tokens=(1,), message=0),))
ASKED = ReplyRequest(model="claude-haiku-4-5", prompt=PROMPT, closing="", max_tokens=10)
USAGE = Usage(input=10, cache_read=20, write_5m=5, write_1h=2, output=4)
THINKING = ModelReply(text="It is so.", tokens=(1, 2), thinking="Is it so now?", reasoning=5)


def payloads(*replies: ModelReply) -> list[dict[str, Any]]:
    streamed = events(scripted_reply(ASKED, *replies, model="claude-haiku-4-5", usage=USAGE))
    assert all(event.payload and event.payload["type"] == event.name for event in streamed)
    return [event.payload for event in streamed if event.payload]


def test_input_tokens_exclude_cache_reads_and_writes() -> None:
    usage_document = counts(USAGE)

    assert usage_document["input_tokens"] == 10
    assert usage_document["cache_read_input_tokens"] == 20
    assert usage_document["cache_creation_input_tokens"] == 7
    assert usage_document["cache_creation"] == {
        "ephemeral_5m_input_tokens": 5,
        "ephemeral_1h_input_tokens": 2,
    }
    assert "output_tokens_details" not in usage_document


def test_thinking_is_among_the_output_tokens() -> None:
    usage_document = counts(Usage(output=4, reasoning=3))

    assert usage_document["output_tokens"] == 7
    assert usage_document["output_tokens_details"] == {"thinking_tokens": 3}


def test_an_answer_has_its_blocks_and_its_ending() -> None:
    document = answer(scripted_reply(ASKED, ModelReply(text="So", finish="sequence", stop=".")))

    assert document["content"] == [{"type": "text", "text": "So"}]
    assert (document["stop_reason"], document["stop_sequence"]) == ("stop_sequence", ".")


def test_calls_are_blocks_with_their_input_as_an_object() -> None:
    document = answer(scripted_reply(ASKED, CALLS))

    assert document["stop_reason"] == "tool_use"
    assert [block["id"] for block in document["content"]] == ["toolu_a", "toolu_b"]
    assert document["content"][1]["input"] == {"path": "b"}


def test_a_stream_tells_events_in_their_order() -> None:
    kinds = [payload["type"] for payload in payloads()]

    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "ping",
        "message_delta",
        "message_stop",
    ]


def test_a_stream_tells_its_input_first_and_its_output_last() -> None:
    streamed = payloads()

    assert streamed[0]["message"]["usage"] == counts(USAGE) | {"output_tokens": 1}
    assert streamed[0]["message"]["content"] == []
    assert streamed[-2]["usage"] == counts(USAGE)
    assert streamed[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_thinking_comes_first_and_its_signature_last() -> None:
    streamed = payloads(THINKING)
    deltas = [payload["delta"] for payload in streamed if payload["type"] == "content_block_delta"]
    thought = [delta for delta in deltas if delta["type"] == "thinking_delta"]
    starts = [payload for payload in streamed if payload["type"] == "content_block_start"]

    assert "".join(delta["thinking"] for delta in thought) == THINKING.thinking
    assert deltas[len(thought)] == {
        "type": "signature_delta",
        "signature": signature(THINKING.thinking),
    }
    assert starts[0]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert starts[1] == {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "text", "text": ""},
    }


def test_a_streamed_call_opens_empty_and_its_input_comes_in_pieces() -> None:
    streamed = payloads(CALLS)
    starts = [
        payload["content_block"] for payload in streamed if payload["type"] == "content_block_start"
    ]
    pieces = [
        payload["delta"]["partial_json"]
        for payload in streamed
        if payload["type"] == "content_block_delta" and payload["index"] == 0
    ]

    assert starts[0] == {"type": "tool_use", "id": "toolu_a", "name": "read_file", "input": {}}
    assert orjson.loads("".join(pieces)) == {"path": "one two three four"}


def test_usage_told_midway_is_not_yet_all_of_it() -> None:
    payload = midway(scripted_reply(ASKED, usage=USAGE)).payload

    assert payload is not None
    assert payload["usage"]["output_tokens"] == 2
    assert payload["delta"]["stop_reason"] is None
