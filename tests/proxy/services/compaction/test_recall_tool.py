from typing import Any

import orjson
import pytest

from compaction.recall.tool_index import TOOL_NAME
from proxy.prefix.prompts.prompt import Prompt, parse_prompt
from proxy.services.compaction.recall_tool import (
    route_takes_recall,
    takes_recall,
    with_recall_tool,
)
from tests.fakes.call_dependencies import route

FIND = {"type": "function", "function": {"name": "find", "parameters": {}}}
OWN = {"type": "function", "function": {"name": TOOL_NAME, "parameters": {}}}
JSON_FORM = {"type": "json_object"}


def prompt(**fields: Any) -> Prompt:
    messages = [{"role": "user", "content": "hi"}]
    return parse_prompt(orjson.dumps({"model": "m", "messages": messages, **fields}))


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        ({}, True),
        ({"tools": [FIND], "tool_choice": "required"}, True),
        ({"tools": [FIND], "tool_choice": "none"}, True),
        ({"tools": [FIND], "parallel_tool_calls": False}, True),
        ({"n": 1, "response_format": {"type": "text"}}, True),
        ({"tools": None, "tool_choice": None, "response_format": None}, True),
        ({"n": 2}, False),
        ({"tool_choice": "none"}, False),
        ({"response_format": JSON_FORM}, False),
        ({"tools": [FIND], "response_format": JSON_FORM}, False),
        ({"response_format": 7}, False),
        ({"functions": [{"name": "f"}]}, False),
        ({"prediction": {"type": "content", "content": "x"}}, False),
        ({"modalities": ["text", "audio"]}, False),
        ({"tools": [OWN]}, False),
        ({"tools": [FIND, {"type": "web_search"}]}, False),
        ({"tools": [FIND] * 127}, True),
        ({"tools": [FIND] * 128}, False),
    ],
)
def test_the_tool_is_added_where_the_answer_has_no_form_of_its_own(fields, is_taken):
    assert takes_recall(prompt(**fields), keeps_responses=True) is is_taken


@pytest.mark.parametrize("tools", [[], [FIND], None])
def test_the_tool_comes_behind_the_callers_own_and_all_else_stays(tools):
    fields = {"seed": 7, "tool_choice": "auto"} | ({} if tools is None else {"tools": tools})
    before = orjson.loads(prompt(**fields).render())
    after = orjson.loads(with_recall_tool(prompt(**fields)).render())

    names = [tool["function"]["name"] for tool in after.pop("tools")]
    before.pop("tools", None)
    assert names == [*(["find"] if tools else []), TOOL_NAME]
    assert after == before


@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        ({}, True),
        ({"tools": [{"name": "find", "input_schema": {}}], "tool_choice": {"type": "any"}}, True),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, True),
        ({"tools": [{"type": "web_search_20260209", "name": "web_search"}]}, False),
        ({"tool_choice": {"type": "none"}}, False),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, True),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, False),
        ({"mcp_servers": []}, False),
    ],
)
def test_messages_calls_are_given_the_tool_where_their_answer_is_in_words(fields, is_taken):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    given = parse_prompt(orjson.dumps(body), is_native=True)
    tools = orjson.loads(with_recall_tool(given).render())["tools"]

    assert takes_recall(given, keeps_responses=True) is is_taken
    assert tools[:-1] == fields.get("tools", [])
    assert (tools[-1]["name"], tools[-1]["input_schema"]["type"]) == (TOOL_NAME, "object")


@pytest.mark.parametrize(
    ("fields", "keeps_responses", "is_taken"),
    [
        ({"store": False}, True, True),
        ({"store": False, "reasoning": {"effort": "high"}}, True, True),
        ({}, True, False),
        ({"store": True}, True, False),
        ({}, False, True),
        ({"store": False, "background": True}, True, False),
        ({"store": False, "text": {"format": {"type": "json_object"}}}, True, False),
        ({"store": False, "text": {"verbosity": "low"}}, True, True),
        ({"store": False, "tools": [{"type": "web_search"}]}, True, False),
        ({"store": False, "tools": [{"type": "custom", "name": "patch"}]}, True, True),
    ],
)
def test_responses_calls_are_given_the_tool_where_their_provider_keeps_nothing(
    fields, keeps_responses, is_taken
):
    given = parse_prompt(orjson.dumps({"model": "m", "input": "hi", **fields}))
    tools = orjson.loads(with_recall_tool(given).render())["tools"]

    assert takes_recall(given, keeps_responses=keeps_responses) is is_taken
    assert tools[:-1] == fields.get("tools", [])
    assert (tools[-1]["type"], tools[-1]["name"]) == ("function", TOOL_NAME)
    assert tools[-1]["strict"] is False


@pytest.mark.parametrize(
    ("chosen", "is_taken"),
    [
        (route("openai"), True),
        (route("openai", can=frozenset({"vision"})), False),
        (route("openai", can=frozenset({"tools"})), True),
        (route("anthropic", "anthropic", traits=frozenset({"bound_thinking"})), True),
    ],
)
def test_routes_take_the_tool_where_models_call_tools(chosen, is_taken):
    assert route_takes_recall(chosen) is is_taken
