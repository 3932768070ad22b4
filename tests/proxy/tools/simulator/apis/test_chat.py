"""Chat's answers."""

from dataclasses import replace
from typing import Any

import pytest

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.tools.simulator.apis.chat import answer, counts, events, midway
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.replies import ModelReply, ReplyRequest
from slo.usage import Usage
from tests.proxy.tools.simulator.scene import CALLS, scripted_reply

PROMPT = CachedPrompt(blocks=(TokenBlock(role="user", tokens=(1,), message=0),))
ASKED = ReplyRequest(model="gpt-6.1-sol", prompt=PROMPT, closing="", max_tokens=10)
WITH_USAGE = replace(ASKED, usage_chunk=True)


def deltas(*replies: ModelReply) -> list[dict[str, Any]]:
    chunks = [event.payload for event in events(scripted_reply(ASKED, *replies)) if event.payload]
    return [chunk["choices"][0]["delta"] for chunk in chunks]


def test_usage_counts_the_cached_and_the_written_among_the_prompt() -> None:
    usage = Usage(input=10, cache_read=20, write_30m=5, write_12h=2, output=4, reasoning=3)

    usage_document = counts(usage, units=False)

    assert usage_document["prompt_tokens"] == 37
    assert usage_document["completion_tokens"] == 7
    assert usage_document["total_tokens"] == 44
    assert usage_document["prompt_tokens_details"]["cached_tokens"] == 20
    assert usage_document["prompt_tokens_details"]["cache_write_tokens"] == 7
    assert usage_document["completion_tokens_details"]["reasoning_tokens"] == 3


def test_deepseek_tells_hits_and_misses_that_add_up_to_the_prompt() -> None:
    usage = answer(scripted_reply(ASKED, model="deepseek-flash"))["usage"]

    assert (usage["prompt_cache_hit_tokens"], usage["prompt_cache_miss_tokens"]) == (20, 17)


@pytest.mark.parametrize(
    ("finish", "name"),
    [("stop", "stop"), ("sequence", "stop"), ("length", "length"), ("tools", "tool_calls")],
)
def test_each_ending_has_its_name(finish: Any, name: str) -> None:
    document = answer(scripted_reply(ASKED, ModelReply(text="x", finish=finish)))

    assert document["choices"][0]["finish_reason"] == name


def test_an_answer_says_everywhere_that_it_is_simulated() -> None:
    assert answer(scripted_reply(ASKED))["system_fingerprint"] == "fp_simulated"


def test_a_refusal_is_no_content() -> None:
    message = answer(scripted_reply(ASKED, ModelReply(text="No.", finish="refusal")))["choices"][0][
        "message"
    ]

    assert (message["content"], message["refusal"]) == (None, "No.")
    assert {"refusal": "No."} in deltas(ModelReply(text="No.", finish="refusal"))


def test_calls_stand_in_the_message() -> None:
    message = answer(scripted_reply(ASKED, CALLS))["choices"][0]["message"]

    assert message["content"] is None
    assert [call["id"] for call in message["tool_calls"]] == ["call_a", "call_b"]


def test_a_stream_begins_with_the_role_and_ends_with_done() -> None:
    streamed = events(scripted_reply(ASKED))

    assert streamed[0].payload is not None
    assert streamed[0].payload["choices"][0]["delta"]["role"] == "assistant"
    assert streamed[-1].payload is None
    assert "usage" not in streamed[0].payload


def test_a_stream_asked_for_usage_tells_it_once_in_a_chunk_without_choices() -> None:
    chunks = [event.payload for event in events(scripted_reply(WITH_USAGE)) if event.payload]

    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens"] == 37


def test_a_streamed_call_names_itself_once_and_then_sends_arguments() -> None:
    calls = [delta["tool_calls"][0] for delta in deltas(CALLS) if "tool_calls" in delta]

    assert [call["index"] for call in calls if "id" in call] == [0, 1]
    assert all(set(call) == {"index", "function"} for call in calls if "id" not in call)
    first = "".join(c["function"]["arguments"] for c in calls if c["index"] == 0)
    assert first == CALLS.calls[0].arguments


def test_several_choices_keep_their_places() -> None:
    replies = (ModelReply(text="a", tokens=(1,)), ModelReply(text="b", tokens=(2,)))
    document = answer(scripted_reply(replace(ASKED, n=2), *replies))

    assert [choice["message"]["content"] for choice in document["choices"]] == ["a", "b"]
    assert [choice["index"] for choice in document["choices"]] == [0, 1]


def test_usage_told_midway_is_not_yet_all_of_it() -> None:
    payload = midway(scripted_reply(ASKED)).payload

    assert payload is not None
    assert payload["usage"]["completion_tokens"] == 2


def test_a_provider_that_tells_usage_unasked_tells_it_with_the_reason_for_the_end() -> None:
    unasked = replace(scripted_reply(ASKED), model=SimulatedModel(asks_usage=False))
    chunks = [event.payload for event in events(unasked) if event.payload]

    assert ["usage" in chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
