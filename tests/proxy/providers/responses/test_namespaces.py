"""Tools in namespaces and in the input, as chat has them; calls with their own names again."""

from typing import Any

import orjson
import pytest

from proxy.errors import CallerError
from proxy.providers.readers import PassthroughReader
from proxy.providers.responses.namespaces import (
    OwnName,
    flat_name,
    flat_tools,
    own_names,
    text_of_arguments,
)
from proxy.providers.responses.reader import responses_reader
from proxy.providers.responses.request import chat_body
from tests.fakes.refusals import refusing

PLAIN = {"type": "function", "name": "read", "parameters": {"type": "object"}}
SPAWN = {"type": "function", "name": "spawn", "parameters": {"type": "object"}}
EXEC = {"type": "custom", "name": "exec", "description": "Runs JavaScript."}
AGENTS = {"type": "namespace", "name": "agents", "description": "", "tools": [SPAWN, EXEC]}
IN_INPUT = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [AGENTS, PLAIN]}
USER = {"role": "user", "content": "Hello"}


def body(**fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "input": "Hello", **fields})


def names(raw: bytes) -> list[str]:
    return [tool[tool["type"]]["name"] for tool in orjson.loads(raw)["tools"]]


def test_tools_of_a_namespace_become_tools_with_its_name_before_theirs() -> None:
    converted = chat_body(body(tools=[PLAIN, AGENTS]))

    assert names(converted.body) == ["read", "agents__spawn", "agents__exec"]
    assert converted.notes == ()


def test_tools_in_the_input_are_offered_and_make_no_message() -> None:
    converted = chat_body(
        body(input=[IN_INPUT, {"role": "developer", "content": "Be brief."}, USER])
    )
    chat = orjson.loads(converted.body)

    assert names(converted.body) == ["agents__spawn", "agents__exec", "read"]
    assert [message["role"] for message in chat["messages"]] == ["developer", "user"]


def test_a_tool_that_is_offered_again_takes_its_earlier_place() -> None:
    newer = {**PLAIN, "description": "newer"}
    more = {"type": "additional_tools", "role": "developer", "tools": [newer]}
    flat = flat_tools({"tools": [PLAIN, SPAWN], "input": [USER, more]})

    assert flat.tools == [newer, SPAWN]
    assert flat.places == ["input[1].tools[0]", "tools[1]"]


def test_earlier_calls_go_by_the_flat_name() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "spawn", "namespace": "agents"}
    custom = {"type": "custom_tool_call", "call_id": "c2", "name": "exec", "namespace": "agents"}
    given = [
        USER,
        {**call, "arguments": "{}"},
        {**custom, "input": "1"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
    ]
    chat = orjson.loads(chat_body(body(input=given, tools=[AGENTS])).body)
    calls = chat["messages"][1]["tool_calls"]

    assert calls[0]["function"]["name"] == "agents__spawn"
    assert calls[1]["custom"]["name"] == "agents__exec"


def test_a_call_comes_back_with_the_callers_own_name_and_namespace() -> None:
    fields = body(input=[IN_INPUT, USER])
    function = {"name": "agents__spawn", "arguments": "{}"}
    calls = [
        {"id": "c1", "type": "function", "function": function},
        {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
        {"id": "c3", "type": "custom", "custom": {"name": "agents__exec", "input": "1"}},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    reader = responses_reader(PassthroughReader(), fields, streamed=False, created=0.0)
    answer = reader.feed(orjson.dumps({"id": "chatcmpl-1", "choices": [choice]})) + reader.end()
    first, second, third = orjson.loads(answer)["output"]

    assert (first["name"], first["namespace"]) == ("spawn", "agents")
    assert second["name"] == "read"
    assert "namespace" not in second
    assert (third["type"], third["name"], third["namespace"]) == (
        "custom_tool_call",
        "exec",
        "agents",
    )


def test_long_names_stay_within_64_characters_and_apart() -> None:
    first, other = flat_name("n" * 40, "a" * 40), flat_name("n" * 40, "a" * 39 + "b")

    assert len(first) == len(other) == 64
    assert first != other
    assert flat_name(None, "read") == flat_name("", "read") == "read"


def test_the_names_of_a_body_lead_back_to_what_their_caller_knows() -> None:
    names = own_names({"tools": [PLAIN, AGENTS, EXEC], "input": "x"})

    assert names == {
        "agents__spawn": OwnName("spawn", "agents", is_custom=False),
        "agents__exec": OwnName("exec", "agents", is_custom=True),
        "exec": OwnName("exec", "", is_custom=True),
    }


def test_a_tool_of_free_text_becomes_a_function_where_a_model_has_none() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": 'say("é")'}
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"}
    choice = {"type": "custom", "name": "exec"}
    tools = [{**EXEC, "format": form}, PLAIN]
    usual = {"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{}"}
    fields = body(input=[USER, call, usual, output], tools=tools, tool_choice=choice)
    chat = orjson.loads(chat_body(fields, takes_custom=False).body)
    function, plain = (tool["function"] for tool in chat["tools"])
    earlier, usual = chat["messages"][1]["tool_calls"]

    assert (function["name"], plain["name"], usual["id"]) == ("exec", "read", "c2")
    assert function["description"] == (
        "Runs JavaScript.\n`input` follows this lark grammar:\nstart: WORD"
    )
    assert function["parameters"]["required"] == ["input"]
    assert orjson.loads(earlier["function"]["arguments"]) == {"input": 'say("é")'}
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "exec"}}


def test_a_call_of_such_a_function_streams_back_as_one_of_the_tool() -> None:
    fields = body(tools=[EXEC], stream=True)
    parts = ['{"input":', '"1 +', ' 1"}']
    chunks = [
        {"index": 0, "id": "c1", "function": {"name": "exec", "arguments": ""}},
        *({"index": 0, "function": {"arguments": part}} for part in parts),
    ]
    run = b"".join(
        b"data: " + orjson.dumps({"id": "chatcmpl-1", "choices": [choice]}) + b"\n\n"
        for choice in (
            *({"index": 0, "delta": {"tool_calls": [chunk]}} for chunk in chunks),
            {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
        )
    )
    reader = responses_reader(PassthroughReader(), fields, streamed=True, created=0.0)
    answer = reader.feed(run + b"data: [DONE]\n\n") + reader.end()
    events = [orjson.loads(line[6:]) for line in answer.splitlines() if line.startswith(b"data: ")]
    names = [event["type"].removeprefix("response.") for event in events]

    assert names[2:-1] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    assert events[3]["delta"] == events[4]["input"] == events[5]["item"]["input"] == "1 + 1"
    assert events[5]["item"]["type"] == "custom_tool_call"


@pytest.mark.parametrize("arguments", ['{"input":', "[]", '{"other":1}', '{"input":2}', ""])
def test_arguments_without_a_text_stand_for_themselves(arguments: str) -> None:
    assert text_of_arguments(arguments) == arguments


@pytest.mark.parametrize(
    "kind", ["web_search", "file_search", "code_interpreter", "computer", "mcp", "shell"]
)
def test_a_tool_that_only_openai_can_run_is_refused_or_left_out_with_a_note(kind: str) -> None:
    with refusing(400, "run it yourself, or have the gateway's operator") as caught:
        chat_body(body(tools=[PLAIN, {"type": kind}]))
    assert caught.value.param == "tools[1].type"

    converted = chat_body(body(tools=[PLAIN, {"type": kind}]), drops_hosted=True)
    assert names(converted.body) == ["read"]
    assert converted.notes == (f"left out {kind}, which only OpenAI runs",)


def test_a_description_of_a_namespace_is_left_out_with_a_note() -> None:
    converted = chat_body(body(tools=[{**AGENTS, "description": "Sub-agents."}]))

    assert converted.notes == ("left out descriptions of namespaces: chat has none",)


@pytest.mark.parametrize("tools", ["x", {}, 5])
def test_tools_that_are_no_list_are_refused_by_name(tools: Any) -> None:
    with refusing(400) as caught:
        chat_body(body(tools=tools))
    assert caught.value.param == "tools"


def test_an_error_in_a_tool_names_its_place_in_the_callers_body() -> None:
    converted = chat_body(body(tools=[PLAIN, AGENTS]))
    wrong = CallerError("`tools[2].function` is odd.", code="x", param="tools[2].function")

    assert converted.names.translate_error(wrong).param == "tools[1].tools[1]"
