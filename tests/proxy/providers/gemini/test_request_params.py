"""Parameters and tools of a chat call as Google has them."""

from typing import Any

import orjson
import pytest

from proxy.providers.gemini.request import generate_body
from tests.fakes.gemini_answers import Json, gemini_route
from tests.fakes.refusals import refusing


def translate(model: str = "gemini-3.8-flash", **fields: Any) -> tuple[Json, tuple[str, ...]]:
    body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
    request = generate_body(orjson.dumps(body), gemini_route(max_output=50), model)
    return orjson.loads(request.body), request.notes


def tool(name: str, **more: Any) -> Json:
    return {"type": "function", "function": {"name": name, **more}}


TOOLS = [tool("a"), tool("b")]
SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("fields", "config"),
    [
        ({"temperature": 0, "top_p": 0.5, "top_k": 3, "seed": 7},
         {"temperature": 0, "topP": 0.5, "topK": 3, "seed": 7}),
        ({"presence_penalty": 1, "frequency_penalty": 2},
         {"presencePenalty": 1, "frequencyPenalty": 2}),
        ({"max_tokens": 9}, {"maxOutputTokens": 9}),
        ({"stop": "a"}, {"stopSequences": ["a"]}),
        ({"stop": ["a", "b"]}, {"stopSequences": ["a", "b"]}),
        ({"n": 2}, {"candidateCount": 2}),
        ({"n": 1, "response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
         {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}),
        ({"reasoning_effort": "low"},
         {"thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True}}),
        ({"extra_body": {"google": {"thinking_config": {"thinking_budget": 5}}},
          "reasoning_effort": "low"}, {"thinkingConfig": {"thinking_budget": 5}}),
    ],
)  # fmt: skip
def test_a_parameter_is_said_by_googles_name(fields: Json, config: Json | None) -> None:
    body, notes = translate(**fields)

    assert body.get("generationConfig") == config
    assert notes == ()


@pytest.mark.parametrize(
    ("effort", "level", "budget"),
    [
        ("none", {"thinkingLevel": "minimal"}, {"thinkingBudget": 0}),
        ("medium", {"thinkingLevel": "medium", "includeThoughts": True},
         {"thinkingBudget": 8192, "includeThoughts": True}),
        ("max", {"thinkingLevel": "high", "includeThoughts": True},
         {"thinkingBudget": 24576, "includeThoughts": True}),
    ],
)  # fmt: skip
def test_an_effort_is_a_level_and_for_earlier_models_a_budget(
    effort: str, level: Json, budget: Json
) -> None:
    newer, notes = translate(reasoning_effort=effort)
    earlier, _ = translate("gemini-2.5-pro", reasoning_effort=effort)

    assert newer["generationConfig"]["thinkingConfig"] == level
    assert earlier["generationConfig"]["thinkingConfig"] == budget
    assert bool(notes) is (effort != "medium")


def test_the_limit_is_lowered_to_what_the_model_can() -> None:
    body, notes = translate(max_tokens=99)

    assert body["generationConfig"] == {"maxOutputTokens": 50}
    assert notes == ("lowered max_tokens to 50: the model's most",)


def test_tiers_are_said_where_the_model_has_them() -> None:
    assert translate(service_tier="flex")[0]["serviceTier"] == "flex"
    assert "serviceTier" not in translate(service_tier="default")[0]
    assert translate(service_tier="scale")[1] == (
        "dropped service_tier scale: the model has no such tier",
    )


def test_functions_are_declared_with_their_schemas_as_they_are() -> None:
    given = tool("a", description="d", parameters={"type": "object"}, strict=True)
    body, notes = translate(tools=[given], parallel_tool_calls=False)

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
    body, _ = translate(tools=TOOLS, tool_choice=choice)

    assert body.get("toolConfig") == (config and {"functionCallingConfig": config})


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": ["a"] * 6}, "stop"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "allowed_tools": {
            "mode": "auto", "tools": [TOOLS[0]]}}}, "tool_choice.allowed_tools"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ],
)  # fmt: skip
def test_a_parameter_that_cannot_be_said_is_refused(fields: Json, param: str) -> None:
    with refusing(400) as caught:
        translate(**fields)

    assert caught.value.param == param
