"""Spans of every generation of the GenAI conventions."""

from typing import Any

import orjson
import pytest

from proxy.tools.replay.logs.spans import spans


def attributes(**fields: Any) -> dict[str, Any]:
    return {f"gen_ai.{name.replace('__', '.')}": value for name, value in fields.items()}


def record(**span: Any) -> dict[str, Any]:
    records = spans({"start_time": "2026-11-20T10:00:00Z", **span})
    assert records is not None
    (only,) = records
    return only


def test_messages_in_parts_become_chat_messages():
    parts = [
        {"role": "user", "parts": [{"type": "text", "content": "Hi"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "1", "name": "f", "arguments": {"a": 1}}],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "1", "response": {"b": 2}}],
        },
    ]

    messages = record(attributes=attributes(input__messages=parts))["messages"]

    function = {"name": "f", "arguments": '{"a":1}'}
    assert messages[0] == {"role": "user", "content": "Hi"}
    assert messages[1]["tool_calls"] == [{"id": "1", "type": "function", "function": function}]
    assert messages[2] == {"role": "tool", "tool_call_id": "1", "content": '{"b":2}'}


def test_instructions_stand_first_and_tools_take_chats_form():
    message_record = record(
        attributes=attributes(
            input__messages=[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}],
            system_instructions=orjson.dumps([{"type": "text", "content": "Be brief."}]).decode(),
            tool__definitions=[{"name": "f"}],
        )
    )

    assert message_record["messages"][0] == {"role": "system", "content": "Be brief."}
    assert message_record["tools"] == [{"type": "function", "function": {"name": "f"}}]


def test_structured_values_of_otlp_are_read():
    text = {"kvlistValue": {"values": [_pair("type", "text"), _pair("content", "Hi")]}}
    message = {
        "kvlistValue": {
            "values": [
                _pair("role", "user"),
                {"key": "parts", "value": {"arrayValue": {"values": [text]}}},
            ]
        }
    }
    inputs = {"key": "gen_ai.input.messages", "value": {"arrayValue": {"values": [message]}}}
    event = {"timeUnixNano": "1790000000000000000", "attributes": [inputs]}

    records = spans({"resourceLogs": [{"scopeLogs": [{"logRecords": [event]}]}]})

    assert records is not None
    assert records[0]["messages"] == [{"role": "user", "content": "Hi"}]
    assert records[0]["started"] == "1790000000000000000"


def _pair(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": text}}


def test_span_events_of_older_conventions_are_read():
    message_record = record(
        attributes=attributes(request__model="m"),
        events=[
            {"name": "gen_ai.system.message", "attributes": {"content": "Be brief."}},
            {"name": "gen_ai.user.message", "attributes": {"content": "Hi"}},
            {"name": "gen_ai.choice", "attributes": {"message": '{"content": "Hello"}'}},
        ],
    )

    assert message_record["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]
    assert message_record["response"] == {"content": "Hello"}


def test_numbered_attributes_of_openllmetry_are_read_in_their_order():
    numbered = {
        "gen_ai.prompt.1.content": "Hi",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.completion.0.content": "Hello",
        "gen_ai.completion.0.role": "assistant",
    }

    message_record = record(attributes=numbered)

    assert [message["content"] for message in message_record["messages"]] == ["Be brief.", "Hi"]
    assert message_record["response"]["content"] == "Hello"


@pytest.mark.parametrize("operation", ["invoke_agent", "execute_tool", "embeddings"])
def test_spans_around_a_model_call_are_no_calls(operation: str):
    assert spans({"attributes": attributes(operation__name=operation)}) == []


def test_a_span_that_failed_is_a_failure():
    message_record = record(attributes=attributes(request__model="m"), status={"code": 2})

    assert message_record["status"] == "failure"


def test_documents_that_are_no_spans_are_none():
    assert spans({"messages": []}) is None
    assert spans({"attributes": {"http.method": "GET"}}) is None


def test_numbered_attributes_hold_calls_of_tools_and_the_tools():
    numbered = {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Hi",
        "gen_ai.prompt.1.role": "assistant",
        "gen_ai.prompt.1.tool_calls.0.id": "1",
        "gen_ai.prompt.1.tool_calls.0.name": "f",
        "gen_ai.prompt.1.tool_calls.0.arguments": "{}",
        "gen_ai.prompt.2.role": "tool",
        "gen_ai.prompt.2.content": "Sunny",
        "gen_ai.prompt.2.tool_call_id": "1",
        "llm.request.functions.0.name": "f",
        "llm.request.functions.0.parameters": '{"type": "object"}',
    }

    call = record(attributes=numbered)

    function = {"name": "f", "arguments": "{}"}
    assert call["messages"] == [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "Sunny", "tool_call_id": "1"},
    ]
    tool = {"name": "f", "parameters": {"type": "object"}}
    assert call["tools"] == [{"type": "function", "function": tool}]
