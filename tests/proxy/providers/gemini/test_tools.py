"""Tools and the choice among them, as Google has them."""

from typing import Any

import orjson
import pytest

from proxy.providers.gemini.request import generate_body
from tests.fakes.gemini_answers import Json, gemini_route
from tests.fakes.refusals import refusing


def tool(name: str, **more: Any) -> Json:
    return {"type": "function", "function": {"name": name, **more}}


TOOLS = [tool("a"), tool("b")]


def said(**fields: Any) -> tuple[Json, tuple[str, ...]]:
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    request = generate_body(orjson.dumps(body), gemini_route(), "gemini-x")
    return orjson.loads(request.body), request.notes


def test_functions_are_declared_with_their_schemas_as_they_are() -> None:
    given = tool("a", description="d", parameters={"type": "object"}, strict=True)
    body, notes = said(tools=[given], parallel_tool_calls=False)

    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "a", "description": "d", "parametersJsonSchema": {"type": "object"}}
            ]
        }
    ]
    assert notes == (
        "dropped strict: this model cannot promise a tool's schema",
        "dropped parallel_tool_calls: the model has no such parameter",
    )


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (None, None),
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ({"type": "function", "function": {"name": "a"}},
         {"mode": "ANY", "allowedFunctionNames": ["a"]}),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TOOLS[1]]}},
         {"mode": "ANY", "allowedFunctionNames": ["b"]}),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": TOOLS}}, None),
    ],
)  # fmt: skip
def test_a_tool_choice_is_a_mode_of_gemini(choice: Any, config: Json | None) -> None:
    body, _ = said(tools=TOOLS, tool_choice=choice)

    assert body.get("toolConfig") == (config and {"functionCallingConfig": config})


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
            "mode": "auto", "tools": [TOOLS[0]]}}}, "tool_choice.allowed_tools"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ],
)  # fmt: skip
def test_a_tool_or_choice_that_cannot_be_said_is_refused(fields: Json, param: str) -> None:
    with refusing(400) as caught:
        said(**fields)

    assert caught.value.param == param
