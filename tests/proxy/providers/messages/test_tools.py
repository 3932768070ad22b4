"""Tools, the choice among them and calls of them."""

import orjson
import pytest
from msgspec import Raw

from proxy.providers.messages.tools import is_strict_schema
from tests.fakes.messages_calls import (
    CLAUDE,
    SCHEMA,
    WEATHER,
    Json,
    assistant,
    calls,
    chat_body_and_notes,
    request,
    result,
    user,
)
from tests.fakes.refusals import refusing

CLOSED = SCHEMA | {"required": ["city"], "additionalProperties": False}
MARK = {"type": "ephemeral"}
LONG = "mcp__server__" + "a" * 60


def _tool_calls(*blocks: Json) -> list[Json]:
    body, _ = chat_body_and_notes(
        user("Hi"), assistant(*blocks), user(*(result(b["id"]) for b in blocks))
    )
    tool_calls_sent: list[Json] = body["messages"][1]["tool_calls"]
    return tool_calls_sent


def test_a_tool_keeps_its_words_and_its_schema_byte_for_byte() -> None:
    schema = b'{ "type" : "object" ,"properties":{"b":{},"a":{}} }'
    body = request(tools=[WEATHER]).body

    assert orjson.loads(body)["tools"] == [
        {
            "type": "function",
            "function": {"name": "weather", "description": "The weather.", "parameters": SCHEMA},
        }
    ]
    tools = [WEATHER | {"input_schema": orjson.Fragment(schema)}]
    assert schema in request(tools=tools).body


def test_a_cache_mark_stays_on_its_tool() -> None:
    body, _ = chat_body_and_notes(tools=[WEATHER | {"cache_control": MARK, "type": "custom"}])

    assert body["tools"][0]["cache_control"] == MARK


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        (None, {}),
        ({"type": "auto"}, {}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "weather"},
         {"tool_choice": {"type": "function", "function": {"name": "weather"}}}),
        ({"type": "auto", "disable_parallel_tool_use": True}, {"parallel_tool_calls": False}),
        ({"type": "any", "disable_parallel_tool_use": False}, {"tool_choice": "required"}),
    ],
)  # fmt: skip
def test_a_choice_is_said_in_the_words_of_chat(choice: Json | None, fields: Json) -> None:
    body, _ = chat_body_and_notes(tools=[WEATHER], tool_choice=choice)
    names = ("tool_choice", "parallel_tool_calls")

    assert {name: body[name] for name in names if name in body} == fields


def test_without_tools_a_choice_of_none_says_nothing() -> None:
    assert "tool_choice" not in chat_body_and_notes(tool_choice={"type": "none"})[0]


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        (CLOSED, True),
        (SCHEMA, False),
        (CLOSED | {"required": []}, False),
        (CLOSED | {"properties": {"city": {"anyOf": [SCHEMA, {"type": "null"}]}}}, False),
        (CLOSED | {"properties": {"city": {"type": "array", "items": CLOSED}}}, True),
        (CLOSED | {"properties": {"city": {"type": "array", "items": SCHEMA}}}, False),
        (CLOSED | {"$defs": {"open": SCHEMA}}, False),
    ],
)
def test_strict_is_said_where_chats_strict_mode_takes_the_schema(
    *, schema: Json, is_strict: bool
) -> None:
    tool = WEATHER | {"strict": True, "input_schema": schema}
    body, notes = chat_body_and_notes(tools=[tool])

    assert body["tools"][0]["function"].get("strict", False) is is_strict
    assert bool(notes) is not is_strict
    assert (
        chat_body_and_notes(tools=[tool], target=CLAUDE)[0]["tools"][0]["function"]["strict"]
        is True
    )


def test_examples_of_inputs_are_named_as_left_out() -> None:
    _, notes = chat_body_and_notes(tools=[WEATHER | {"input_examples": [{"city": "Bern"}]}])

    assert notes == ("dropped input_examples: chat's tools have none",)


def test_the_input_of_a_call_is_its_arguments_byte_for_byte() -> None:
    block = calls("t1", input=orjson.Fragment(b'{"b": 1,"a":[ ]}'), cache_control=MARK)
    body, _ = chat_body_and_notes(user("Hi"), assistant(block), user(result("t1")))

    assert body["messages"][1]["tool_calls"] == [
        {
            "id": "t1",
            "type": "function",
            "function": {"name": "weather", "arguments": '{"b": 1,"a":[ ]}'},
            "cache_control": MARK,
        }
    ]


def test_a_long_name_is_shortened_alike_in_tools_calls_and_the_choice() -> None:
    body, _ = chat_body_and_notes(
        user("Hi"),
        assistant(calls("t1", LONG)),
        user(result("t1")),
        tools=[WEATHER | {"name": LONG}],
        tool_choice={"type": "tool", "name": LONG},
    )
    short = body["tools"][0]["function"]["name"]

    assert len(short) == 64
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == short
    assert body["tool_choice"]["function"]["name"] == short
    assert request(tools=[WEATHER | {"name": LONG}]).settings.tool_names == {short: LONG}


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"tools": [{"input_schema": SCHEMA}]}, "tools[0].name", "add `name`"),
        ({"tools": [{"name": "a"}]}, "tools[0].input_schema", "send one"),
        ({"tools": [{"name": "a", "input_schema": []}]}, "tools[0].input_schema", "send one"),
        ({"tools": [WEATHER], "tool_choice": {"type": "some"}}, "tool_choice", "must be auto"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool"}}, "tool_choice", "must be auto"),
        ({"tool_choice": {"type": "any"}}, "tool_choice", "send `tools`"),
    ],
)
def test_a_tool_that_cannot_be_said_is_refused_with_a_fix(
    fields: Json, param: str, words: str
) -> None:
    with refusing(400, words) as caught:
        chat_body_and_notes(**fields)

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("block", "param"),
    [
        ({"type": "tool_use", "name": "weather", "input": {}}, ""),
        ({"type": "tool_use", "id": "t1", "input": {}}, ""),
        (calls("t1", input="{}"), ".input"),
        (calls("t1", input=[]), ".input"),
    ],
)
def test_a_call_that_is_incomplete_is_refused_with_its_place(block: Json, param: str) -> None:
    with refusing(400) as caught:
        chat_body_and_notes(user("Hi"), assistant(block))

    assert caught.value.param == f"messages[1].content[0]{param}"


def test_a_call_without_input_has_empty_arguments() -> None:
    assert _tool_calls(calls("t1", input=None))[0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize("word", ["allOf", "oneOf", "not", "if", "dependentRequired"])
def test_a_composed_schema_is_not_strict(word: str) -> None:
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    composed = closed | {"$defs": {"A": {word: [{"type": "string"}]}}}

    assert is_strict_schema(Raw(orjson.dumps(closed)))
    assert not is_strict_schema(Raw(orjson.dumps(composed)))
