"""Tools of a chat call, the choice among them and its answer's form, in the words of Responses."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from proxy.providers.chat.chat_body import ResponseFormat, ToolChoice, ToolDefinition
from proxy.providers.openai.responses_request import (
    responses_choice,
    responses_format,
    responses_tool,
)
from tests.fakes.refusals import refusing

Json = dict[str, Any]
HOSTED: Json = {"type": "mcp", "server_url": "http://a", "server_label": "a", "name": "look"}


def say(write: Callable[..., object], shape: type, fields: Json, *more: str) -> Any:
    written = write(msgspec.json.decode(msgspec.json.encode(fields), type=shape), *more)
    return msgspec.json.decode(msgspec.json.encode(written))


def tool(**fields: Any) -> Any:
    return say(responses_tool, ToolDefinition, fields, "tools[0]")


def choice(**fields: Any) -> Any:
    return say(responses_choice, ToolChoice, fields)


def form(**fields: Any) -> Any:
    return say(responses_format, ResponseFormat, fields)


def test_a_schema_goes_on_byte_for_byte() -> None:
    body = b'{"type":"function","function":{"name":"look","parameters":{"b":1E2, "a":1e400}}}'
    tool = responses_tool(msgspec.json.decode(body, type=ToolDefinition), "tools[0]")

    assert bytes(tool["parameters"]) == b'{"b":1E2, "a":1e400}'


def test_a_custom_tool_keeps_its_grammar() -> None:
    grammar = {"syntax": "lark", "definition": "start: WORD"}
    inner = {"name": "patch", "format": {"type": "grammar", "grammar": grammar}}
    named = {"type": "custom", "name": "patch"}

    assert tool(type="custom", custom=inner) == {**named, "format": {"type": "grammar", **grammar}}
    assert tool(type="custom", custom={"name": "patch"}) == named


def test_no_member_of_a_tool_makes_another_of_it_that_runs_at_the_provider() -> None:
    assert tool(type="custom", custom=HOSTED) == {"type": "custom", "name": "look"}
    assert set(tool(function=HOSTED)) == {"type", "name", "parameters", "strict"}
    assert choice(type="function", function=HOSTED) == {"type": "function", "name": "look"}


@pytest.mark.parametrize(
    ("say", "fields"),
    [
        (tool, {"type": "mcp"}),
        (tool, {"type": "function"}),
        (choice, {"type": "custom"}),
        (choice, {"type": "file_search"}),
        (choice, {"type": "allowed_tools"}),
        (choice, {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [HOSTED]}}),
        (form, {"type": "json_schema"}),
        (form, {"type": "grammar"}),
    ],
)
def test_a_type_that_chat_lacks_or_that_says_nothing_is_refused(say: Any, fields: Json) -> None:
    with refusing(400, match="tools|tool_choice|response_format"):
        say(**fields)


def test_a_responses_answer_format_has_only_given_members() -> None:
    schema = {"name": "a", "schema": {"type": "object"}, "strict": None, "type": "text"}

    assert form(type="text") == {"type": "text"}
    assert form(type="json_schema", json_schema=schema) == {
        "type": "json_schema",
        "name": "a",
        "schema": {"type": "object"},
    }
