"""Options of a chat call as its writers read them."""

from typing import Any

import orjson
import pytest
from msgspec import Raw

from proxy.catalog.entries import Route, Upstream
from proxy.providers.chat.chat_body import ChatBody, read
from proxy.providers.chat.chat_options import (
    ToolMode,
    answer_schema,
    output_limit,
    refuse_unsupported,
    stop_texts,
    tool_mode,
)
from tests.fakes.refusals import refusing

Json = dict[str, Any]


def body_of(**fields: object) -> tuple[ChatBody, frozenset[str]]:
    return read(orjson.dumps({"messages": [{"role": "user", "content": "Hi"}], **fields}))


def function(name: str) -> Json:
    return {"type": "function", "function": {"name": name}}


def allowed_tools(mode: str, *names: str) -> Json:
    tools = [function(name) for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "alloy"}}, "audio"),
        ({"functions": []}, "functions"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"system": "s"}, "system"),
        ({"messages": []}, "messages"),
    ],
)
def test_a_parameter_that_would_change_the_answers_meaning_is_refused(
    fields: Json, param: str
) -> None:
    with refusing(400) as caught:
        refuse_unsupported(*body_of(**fields), {"system": "Send it as a message."})

    assert caught.value.param == param


def test_a_parameter_at_its_default_is_accepted() -> None:
    refuse_unsupported(*body_of(n=1, logprobs=False, modalities=["text"], audio=None))


@pytest.mark.parametrize(
    ("fields", "most", "limit", "notes"),
    [
        ({}, 50, None, []),
        ({"max_tokens": 7}, 50, 7, []),
        ({"max_tokens": 70}, None, 70, []),
        ({"max_tokens": 7, "max_completion_tokens": 9}, None, 9, []),
        ({"max_tokens": 70}, 50, 50, ["lowered max_tokens to 50: the model's most"]),
    ],
)
def test_the_output_limit_is_the_callers_up_to_the_models(
    fields: Json, most: int | None, limit: int | None, notes: list[str]
) -> None:
    upstream = Upstream(name="a", kind="gemini", base_url="https://a.test/v1")
    written: list[str] = []

    route = Route(name="a/c", upstream=upstream, max_output=most)
    assert output_limit(body_of(**fields)[0], route, written) == limit
    assert written == notes


def test_an_output_limit_below_one_is_refused() -> None:
    route = Route(name="a/c", upstream=Upstream(name="a", kind="gemini", base_url="https://a/v1"))
    with refusing(400) as caught:
        output_limit(body_of(max_completion_tokens=0)[0], route, [])

    assert caught.value.param == "max_completion_tokens"


def test_stops_are_a_list() -> None:
    assert [stop_texts(body_of(stop=stop)[0]) for stop in (None, "a", ["a", "b"])] == [
        [], ["a"], ["a", "b"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, Raw()),
        ({"type": "json_schema", "json_schema": {"schema": {}}}, Raw(b"{}")),
    ],
)
def test_the_answers_form_is_a_schema_any_object_or_text(
    form: Json | None, schema: Raw | None
) -> None:
    assert answer_schema(body_of(response_format=form)[0]) == schema


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, ToolMode()),
        ({"tool_choice": "none"}, ToolMode("none")),
        ({"tool_choice": "required"}, ToolMode("required")),
        ({"tool_choice": function("g")}, ToolMode("required", ("g",))),
        ({"tool_choice": allowed_tools("auto", "g", "f")}, ToolMode()),
        ({"tool_choice": allowed_tools("auto", "f")}, ToolMode("auto", ("f",))),
        ({"tool_choice": allowed_tools("required", "f", "g")}, ToolMode("required", ("f", "g"))),
        ({"tools": None, "tool_choice": "none"}, ToolMode("none")),
    ],
)
def test_a_choice_of_tools_is_a_mode_and_the_tools_it_is_about(
    fields: Json, mode: ToolMode
) -> None:
    assert tool_mode(body_of(**{"tools": [function("f"), function("g")], **fields})[0]) == mode


@pytest.mark.parametrize(
    ("read_option", "fields", "param"),
    [
        (tool_mode, {"tool_choice": "required"}, "tool_choice"),
        (tool_mode, {"tools": [function("f")], "tool_choice": "sometimes"}, "tool_choice"),
        (tool_mode, {"tools": [function("f")], "tool_choice": {"type": "custom"}}, "tool_choice"),
        (tool_mode, {"tools": [function("f")], "tool_choice": {"type": "function"}}, "tool_choice"),
        (answer_schema, {"response_format": {"type": "xml"}}, "response_format"),
        (answer_schema, {"response_format": {"type": "json_schema"}}, "response_format"),
    ],
)
def test_an_option_that_is_none_of_chats_is_refused(
    read_option: Any, fields: Json, param: str
) -> None:
    with refusing(400) as caught:
        read_option(body_of(**fields)[0])

    assert caught.value.param == param
