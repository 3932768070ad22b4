"""A response of the Responses API as a chat completion."""

import msgspec
import orjson
import pytest
from openai.types.chat import ChatCompletion

from proxy.errors import UpstreamError
from proxy.providers.chat.chat_body import ChatMessage
from proxy.providers.messages.signatures import reasoning_items
from proxy.providers.openai.responses_answer import ResponsesReply, WholeResponse
from proxy.providers.openai.responses_input import input_items
from tests.fakes.responses_answers import CALL, THOUGHT, Json, message_item, response

MAKER = "openai/gpt-x"


def read_completion(whole: Json, maker: str = "") -> Json:
    reader = WholeResponse(ResponsesReply(model="claude-x", created=7, maker=maker))
    completion: Json = orjson.loads(reader.feed(orjson.dumps(whole)) + reader.end())
    ChatCompletion.model_validate(completion, strict=True)
    return completion


def test_words_calls_and_usage_are_those_of_the_response():
    completion = read_completion(
        response(THOUGHT, message_item("I look."), CALL, service_tier="default")
    )
    (choice,) = completion["choices"]

    assert (completion["id"], completion["model"]) == ("chatcmpl-1", "claude-x")
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "I look.",
        "refusal": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Bern"}'},
            }
        ],
    }
    assert completion["usage"]["prompt_tokens_details"] == {"cached_tokens": 60}
    assert completion["usage"]["completion_tokens"] == 9
    assert completion["service_tier"] == "default"


def test_encrypted_reasoning_is_sealed_for_a_caller_that_sends_it_back():
    message = read_completion(response(THOUGHT, message_item("Hi")), MAKER)["choices"][0]["message"]
    (block,) = message["thinking_blocks"]

    assert (block["type"], block["thinking"]) == ("thinking", "")
    assert reasoning_items(block["signature"], MAKER) == [THOUGHT]
    assert reasoning_items(block["signature"], "openai/other") == []


def test_a_whole_answer_goes_back_in_the_order_that_it_came():
    later, second = {**THOUGHT, "id": "rs_2"}, {**CALL, "id": "fc_2", "call_id": "call_2"}
    whole = response(THOUGHT, message_item("So."), CALL, later, second)
    message = read_completion(whole, MAKER)["choices"][0]["message"]
    items = input_items([msgspec.json.decode(orjson.dumps(message), type=ChatMessage)], MAKER)

    assert [item.get("id") or item.get("role") or item["call_id"] for item in items] == [
        "rs_1", "assistant", "call_1", "rs_2", "call_2",
    ]  # fmt: skip


def test_the_phase_of_each_message_goes_back_with_it():
    items = [{**message_item("So."), "phase": "commentary"}, CALL, message_item("Well.")]
    whole = response(THOUGHT, *items, {**message_item("Done."), "phase": "final_answer"})
    message = read_completion(whole, MAKER)["choices"][0]["message"]
    items_back = input_items([msgspec.json.decode(orjson.dumps(message), type=ChatMessage)], MAKER)

    assert [item.get("phase") for item in items_back] == [
        None,
        "commentary",
        None,
        None,
        "final_answer",
    ]
    assert "thinking_blocks" not in read_completion(whole)["choices"][0]["message"]


@pytest.mark.parametrize("phase", [None, "", "draft", 7, {"of": 1}])
def test_a_phase_that_is_not_known_is_left_out(phase: object):
    whole = response({**message_item("So."), "phase": phase})

    assert "thinking_blocks" not in read_completion(whole, MAKER)["choices"][0]["message"]


def test_the_summary_of_a_thought_is_shown_also_where_it_cannot_go_back():
    summary = [{"type": "summary_text", "text": text} for text in ("First.", "", "Then.")]
    shown = {"type": "reasoning", "id": "rs_1", "summary": summary}
    message = read_completion(response(shown, message_item("Hi")), MAKER)["choices"][0]["message"]
    (block,) = message["thinking_blocks"]

    assert message["reasoning_content"] == block["thinking"] == "First.\n\nThen."
    assert reasoning_items(block["signature"], MAKER) == []


@pytest.mark.parametrize(
    ("whole", "reason"),
    [
        (response(message_item("Hi")), "stop"),
        (
            response(
                message_item("H"),
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
            ),
            "length",
        ),
        (
            response(status="incomplete", incomplete_details={"reason": "content_filter"}),
            "content_filter",
        ),
    ],
)
def test_the_reason_for_the_end_is_said_in_chats_words(whole, reason):
    assert read_completion(whole)["choices"][0]["finish_reason"] == reason


def test_two_messages_are_paragraphs_and_a_refusal_is_one():
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    words = read_completion(response(message_item("First."), message_item("Then.")))["choices"][0][
        "message"
    ]

    assert words["content"] == "First.\n\nThen."
    assert read_completion(response(refusal))["choices"][0]["message"]["refusal"] == "No."


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        (b"<html>", "upstream_malformed", 502),
        (b'{"id":"resp_1"}', "upstream_malformed", 502),
        (b'{"status":"failed","error":{"code":"rate_limit_exceeded"}}', "rate_limit_exceeded", 429),
        (b'{"status":"failed","error":null,"output":[]}', "upstream_error", 502),
    ],
)
def test_a_body_that_is_no_answer_is_an_upstreams_error(body, code, status):
    with pytest.raises(UpstreamError) as failed:
        WholeResponse(ResponsesReply(model="m", created=7, maker="")).feed(body)

    assert (failed.value.status, failed.value.code) == (status, code)


SEARCHED: list[Json] = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "a"}},
    {"type": "tool_search_call", "call_id": None, "arguments": {"paths": ["a"]}, "name": None},
    {"type": "tool_search_output", "call_id": None, "tools": [{"name": "f"}]},
    {"type": "mcp_list_tools", "id": "m", "content": "x", "summary": 5},
]


def test_hosted_tools_leave_the_answer_readable_and_its_citations_stay():
    cited = {"type": "url_citation", "url": "http://a", "title": "A", "start_index": 0}
    first, second = message_item("See here."), message_item("And there.")
    second["content"][0]["annotations"] = [cited | {"end_index": 3}, {"type": "file_citation"}]
    message = read_completion(response(*SEARCHED, first, second))["choices"][0]["message"]

    assert message["content"] == "See here.\n\nAnd there."
    (note,) = message["annotations"]
    link = note["url_citation"]
    assert (link["url"], link["title"]) == ("http://a", "A")
    assert message["content"][link["start_index"] : link["end_index"]] == "And"


def test_arguments_written_as_an_object_are_text():
    message = read_completion(response({**CALL, "arguments": {"city": "Bern"}}))["choices"][0][
        "message"
    ]

    assert message["tool_calls"][0]["function"]["arguments"] == '{"city":"Bern"}'
