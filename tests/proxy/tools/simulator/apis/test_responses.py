"""Responses' answers."""

from dataclasses import replace

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.tools.simulator.apis.responses import answer, counts, events, midway
from proxy.tools.simulator.replies import ModelReply, ReplyRequest
from slo.usage import Usage
from tests.proxy.tools.simulator.scene import CALLS, scripted_reply

PROMPT = CachedPrompt(blocks=(TokenBlock(role="user", tokens=(1,), message=0),))
ASKED = ReplyRequest(model="gpt-6.1-sol", prompt=PROMPT, closing="", max_tokens=10)


def names(*replies: ModelReply) -> list[str]:
    return [
        event.name.removeprefix("response.") for event in events(scripted_reply(ASKED, *replies))
    ]


def test_usage_tells_what_was_written_by_lifetime() -> None:
    usage = Usage(input=10, cache_read=20, write_30m=5, write_12h=2, output=4, reasoning=3)

    assert counts(usage) == {
        "input_tokens": 37,
        "input_tokens_details": {
            "cached_tokens": 20,
            "cache_write_tokens": 7,
            "cache_write_tokens_details": {"ttl_30m_tokens": 5, "ttl_12h_tokens": 2},
        },
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 44,
    }


def test_an_answer_is_one_message() -> None:
    document = answer(scripted_reply(ASKED))

    assert document["status"] == "completed"
    assert document["output"][0]["content"][0]["text"] == "It is so."


def test_an_answer_cut_short_is_incomplete() -> None:
    document = answer(scripted_reply(ASKED, ModelReply(text="It", finish="length")))

    assert document["status"] == "incomplete"
    assert document["incomplete_details"] == {"reason": "max_output_tokens"}
    assert names(ModelReply(text="It", finish="length"))[-1] == "incomplete"


def test_a_refusal_is_a_part_of_its_own() -> None:
    refused = ModelReply(text="No.", finish="refusal", tokens=(1,))

    assert answer(scripted_reply(ASKED, refused))["output"][0]["content"] == [
        {"type": "refusal", "refusal": "No."}
    ]
    assert "refusal.delta" in names(refused)
    assert "refusal.done" in names(refused)


def test_a_stream_is_numbered_named_and_ends_without_done() -> None:
    streamed = events(scripted_reply(ASKED))

    assert [event.payload and event.payload["sequence_number"] for event in streamed] == list(
        range(len(streamed))
    )
    assert all(event.payload and event.payload["type"] == event.name for event in streamed)
    assert names() == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


def test_only_the_last_event_tells_usage() -> None:
    told_usage = [
        event.name
        for event in events(scripted_reply(ASKED))
        if event.payload and event.payload.get("response", {}).get("usage")
    ]

    assert told_usage == ["response.completed"]


def test_reasoning_is_an_item_before_the_message() -> None:
    thought = ModelReply(text="So.", tokens=(1,), reasoning=5)
    sealed = replace(ASKED, seals_reasoning=True)

    assert [item["type"] for item in answer(scripted_reply(ASKED, thought))["output"]] == [
        "reasoning",
        "message",
    ]
    assert "encrypted_content" not in answer(scripted_reply(ASKED, thought))["output"][0]
    assert answer(scripted_reply(sealed, thought))["output"][0]["encrypted_content"]
    streamed = [event.payload for event in events(scripted_reply(ASKED, thought)) if event.payload]
    places = [payload["output_index"] for payload in streamed if "output_index" in payload]
    assert places == [0, 0, 1, 1, 1, 1, 1, 1]


def test_each_call_is_an_item() -> None:
    assert [item["call_id"] for item in answer(scripted_reply(ASKED, CALLS))["output"]] == [
        "call_a",
        "call_b",
    ]
    streamed = [event.payload for event in events(scripted_reply(ASKED, CALLS)) if event.payload]
    deltas = [
        payload["delta"]
        for payload in streamed
        if payload["type"] == "response.function_call_arguments.delta"
        and payload["output_index"] == 0
    ]
    assert "".join(deltas) == CALLS.calls[0].arguments


def test_usage_told_midway_is_not_yet_all_of_it() -> None:
    payload = midway(scripted_reply(ASKED)).payload

    assert payload is not None
    assert payload["response"]["usage"]["output_tokens"] == 2
