"""Tools, calls of tools and their results."""

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.anthropic.tools import tool_choice, tool_result, tool_use, tools
from proxy.providers.chat.chat_body import ChatBody, ChatMessage, ToolCall, read
from tests.fakes.refusals import refusing

_FORCED = frozenset({"forced_tools"})
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def _body(**fields: object) -> ChatBody:
    return read(orjson.dumps({"messages": [], **fields}))[0]


def _function(name: str = "f", **more: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


def _as_json(value: object) -> Any:
    return orjson.loads(msgspec.json.encode(value))


def _call(arguments: str | None, **more: object) -> ToolCall:
    call = {"id": "call_1", "function": {"name": "f", "arguments": arguments}, **more}
    return msgspec.convert(call, ToolCall)


def _result(**fields: object) -> dict[str, Any]:
    message = {"role": "tool", "tool_call_id": "call_1", **fields}
    body = read(orjson.dumps({"messages": [message]}))[0]
    return tool_result(body.messages[0], "messages[0]")


@pytest.mark.slow
@given(st.dictionaries(st.text(), _JSON))
def test_a_schema_is_sent_equal_and_in_its_own_order(schema: dict[str, Any]) -> None:
    schema = schema | {"type": "object"}
    body = _body(tools=[_function(parameters=schema, description="does")])
    sent = msgspec.json.encode(tools(body, frozenset(), []))

    assert orjson.dumps(schema) in sent
    assert orjson.loads(sent) == [{"name": "f", "description": "does", "input_schema": schema}]


@pytest.mark.parametrize(
    ("more", "schema"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"parameters": None}, {"type": "object", "properties": {}}),
        ({"parameters": {}}, {"type": "object"}),
        ({"parameters": {"properties": {}}}, {"type": "object", "properties": {}}),
    ],
)
def test_a_schema_without_a_type_is_an_object(more: dict[str, Any], schema: dict[str, Any]) -> None:
    offered = tools(_body(tools=[_function(**more)]), frozenset(), [])

    assert _as_json(offered) == [{"name": "f", "input_schema": schema}]


def test_strict_is_sent_where_the_model_can_promise_it_else_noted() -> None:
    closed = {"type": "object", "additionalProperties": False}
    body = _body(tools=[_function(strict=True, parameters=closed)])
    notes: list[str] = []

    assert tools(body, frozenset({"structured"}), notes)[0]["strict"] is True
    assert notes == []
    assert "strict" not in tools(body, frozenset(), notes)[0]
    assert len(notes) == 1


def test_bounds_of_strict_tools_alone_move_to_descriptions() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    body = _body(tools=[_function(strict=True, parameters=schema), _function(parameters=schema)])
    notes: list[str] = []
    strict, plain = _as_json(tools(body, frozenset({"structured"}), notes))

    assert strict["input_schema"] == {
        "type": "object",
        "properties": {"n": {"type": "integer", "description": "{minimum: 1}"}},
        "additionalProperties": False,
    }
    assert plain["input_schema"] == schema
    assert notes == [
        "closed the objects of strict tools: the model supports no others",
        "said minimum of strict tools in descriptions: the model takes no such keywords",
    ]


def test_strict_is_dropped_where_a_schema_refers_to_itself() -> None:
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    notes: list[str] = []
    (tool,) = tools(
        _body(tools=[_function(strict=True, parameters=schema)]), frozenset({"structured"}), notes
    )

    assert _as_json(tool) == {"name": "f", "input_schema": schema}
    assert notes == ["dropped strict: the model promises no schema that refers to itself"]


def test_a_tools_marker_may_stand_inside_or_outside_its_function() -> None:
    mark: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = _body(tools=[_function(**mark), _function() | mark])

    assert all(_as_json(tool)["cache_control"]["ttl"] == "1h" for tool in tools(body, _FORCED, []))


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "custom", "custom": {"name": "c"}},
        {"type": "function"},
        _function(parameters="none"),
        _function(parameters=[]),
    ],
)
def test_tools_that_are_no_functions_are_refused(tool: dict[str, Any]) -> None:
    with refusing(400) as caught:
        tools(_body(tools=[tool]), frozenset(), [])

    assert (caught.value.param or "").startswith("tools[0]")


def _allowed_tools(mode: str, *names: str) -> dict[str, Any]:
    return {
        "type": "allowed_tools",
        "allowed_tools": {"mode": mode, "tools": [_function(name) for name in names]},
    }


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", None),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        (_function("g"), {"type": "tool", "name": "g"}),
        (_allowed_tools("auto", "f", "g"), None),
        (_allowed_tools("required", "f", "g"), {"type": "any"}),
        (_allowed_tools("required", "g"), {"type": "tool", "name": "g"}),
    ],
)
def test_the_choice_of_tools_becomes_chats_tool_choice(
    choice: object, expected: dict[str, str] | None
) -> None:
    body = _body(tools=[_function("f"), _function("g")], tool_choice=choice)

    assert tool_choice(body, _FORCED) == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", {"type": "any", "disable_parallel_tool_use": True}),
        ("none", {"type": "none"}),
    ],
)
def test_one_call_at_a_time_can_be_asked_for(choice: object, expected: dict[str, Any]) -> None:
    body = _body(tools=[_function()], tool_choice=choice, parallel_tool_calls=False)

    assert tool_choice(body, _FORCED) == expected


def test_a_list_of_allowed_tools_cannot_be_said_to_anthropic() -> None:
    choice = _allowed_tools("auto", "f")
    with refusing(400):
        tool_choice(_body(tools=[_function("f"), _function("g")], tool_choice=choice), _FORCED)


def test_a_model_that_cannot_be_forced_is_not_asked_to() -> None:
    with refusing(400) as caught:
        tool_choice(_body(tools=[_function()], tool_choice="required"), frozenset())

    assert caught.value.param == "tool_choice"


def test_without_tools_there_is_nothing_to_choose() -> None:
    assert tool_choice(_body(tool_choice="auto"), _FORCED) is None
    assert tool_choice(_body(tools=[], parallel_tool_calls=False), _FORCED) is None


@pytest.mark.slow
@given(st.dictionaries(st.text(), _JSON))
def test_the_input_of_a_call_is_its_arguments_byte_for_byte(arguments: dict[str, Any]) -> None:
    written = orjson.dumps(arguments, option=orjson.OPT_INDENT_2)
    sent = msgspec.json.encode(tool_use(_call(written.decode()), "at"))

    assert written in sent
    assert orjson.loads(sent) == {
        "type": "tool_use",
        "id": "call_1",
        "name": "f",
        "input": arguments,
    }


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (None, {}),
        ("", {}),
        (" ", {}),
        ("{oops", {"arguments": "{oops"}),
        ("[1]", {"arguments": "[1]"}),
        ("[" * 5_000, {"arguments": "[" * 5_000}),
    ],
)
def test_arguments_that_are_no_object_are_wrapped(
    arguments: str | None, sent: dict[str, Any]
) -> None:
    assert tool_use(_call(arguments), "at")["input"] == sent


@pytest.mark.parametrize("more", [{"type": "custom"}, {"function": None}, {"id": ""}])
def test_tool_calls_that_are_no_function_calls_are_refused(more: dict[str, Any]) -> None:
    with refusing(400):
        tool_use(_call("{}", **more), "at")


def test_an_id_in_foreign_letters_becomes_one_that_anthropic_takes() -> None:
    name = tool_use(_call("{}", id="functions.f:0"), "at")["id"]
    other = tool_use(_call("{}", id="functions:f.0"), "at")["id"]

    assert name == "functions_2e_f_3a_0"
    assert name != other


def test_a_result_holds_what_the_tool_said() -> None:
    assert _result(content="42") == {
        "type": "tool_result",
        "tool_use_id": "call_1",
        "content": [{"type": "text", "text": "42"}],
    }


def test_a_result_may_be_empty_or_an_error() -> None:
    assert _result(content="", is_error=True) == {
        "type": "tool_result",
        "tool_use_id": "call_1",
        "is_error": True,
    }


def test_a_marker_inside_a_result_moves_to_its_block() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    inner = _result(content=[{"type": "text", "text": "a", "cache_control": mark}])
    outer = _result(content="a", cache_control=mark)

    assert _as_json(inner) == _as_json(outer)
    assert _as_json(inner)["cache_control"] == mark
    assert "cache_control" not in inner["content"][0]


def test_a_result_without_its_call_is_refused() -> None:
    with refusing(400) as caught:
        tool_result(ChatMessage(role="tool"), "messages[4]")

    assert caught.value.param == "messages[4].tool_call_id"
