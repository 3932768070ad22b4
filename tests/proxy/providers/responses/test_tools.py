from typing import Any

import pytest

from proxy.providers.responses.tools import chat_tools
from tests.fakes.refusals import refusing

SCHEMA = {"type": "object", "properties": {}}
FUNCTION = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA}
NESTED = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (FUNCTION, NESTED),
        (
            {"type": "function", "name": "f", "strict": True, "defer_loading": True},
            {"type": "function", "function": {"name": "f", "strict": True}},
        ),
        ({"type": "custom", "name": "c"}, {"type": "custom", "custom": {"name": "c"}}),
        (
            {"type": "custom", "name": "c", "description": "d", "format": {"type": "text"}},
            {
                "type": "custom",
                "custom": {"name": "c", "description": "d", "format": {"type": "text"}},
            },
        ),
        (
            {
                "type": "custom",
                "name": "c",
                "format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
            },
            {
                "type": "custom",
                "custom": {
                    "name": "c",
                    "format": {
                        "type": "grammar",
                        "grammar": {"syntax": "regex", "definition": "a+"},
                    },
                },
            },
        ),
    ],
)
def test_a_flat_tool_becomes_a_nested_one(tool: Any, expected: Any) -> None:
    assert chat_tools([tool], None, None) == {"tools": [expected]}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", "none"),
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "custom", "name": "c"}, {"type": "custom", "custom": {"name": "c"}}),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}],
            },
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [
                        {"type": "function", "function": {"name": "f"}},
                        {"type": "custom", "custom": {"name": "c"}},
                    ],
                },
            },
        ),
    ],
)
def test_each_choice_is_said_in_chat(choice: Any, expected: Any) -> None:
    assert chat_tools([FUNCTION], choice, parallel=False) == {
        "tools": [NESTED],
        "tool_choice": expected,
        "parallel_tool_calls": False,
    }


@pytest.mark.parametrize("choice", [None, "none", "auto"])
def test_without_tools_there_is_nothing_to_choose_from(choice: Any) -> None:
    assert chat_tools([], choice, parallel=True) == {}


def test_a_call_that_must_be_made_without_tools_is_for_the_upstream_to_refuse() -> None:
    assert chat_tools([], "required", None) == {"tool_choice": "required"}


@pytest.mark.parametrize(
    ("tools", "choice", "param"),
    [
        ("x", None, "tools"),
        ([5], None, "tools[0]"),
        ([{"type": "function"}], None, "tools[0]"),
        ([{"type": "function", "name": "f", "parameters": []}], None, "tools[0].parameters"),
        ([FUNCTION], "maybe", "tool_choice"),
        ([FUNCTION], {"type": "web_search"}, "tool_choice.type"),
        (
            [FUNCTION],
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]},
            "tool_choice.tools[0].type",
        ),
    ],
)
def test_a_malformed_tool_or_choice_names_its_place(tools: Any, choice: Any, param: str) -> None:
    with refusing(400) as caught:
        chat_tools(tools, choice, None)

    assert caught.value.param == param
