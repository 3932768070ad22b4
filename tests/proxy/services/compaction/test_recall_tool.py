from typing import Any

import orjson
import pytest

from compaction.recall.tool_index import TOOL_NAME
from proxy.prefix.prompts.prompt import Prompt, parse_prompt
from proxy.services.compaction.recall_tool import (
    RecallRules,
    RecallUse,
    recall_rules,
    recall_use,
    with_recall_tool,
)
from tests.fakes.call_dependencies import route

FIND = {"type": "function", "function": {"name": "find", "parameters": {}}}
OWN = {"type": "function", "function": {"name": TOOL_NAME, "parameters": {}}}
JSON_FORM = {"type": "json_object"}
OPENAI = RecallRules(calls_tools=True, lists_tools=True)
CLAUDE = RecallRules(calls_tools=True)


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
    use = RecallUse.OFFERED if is_taken else RecallUse.NONE

    assert recall_use(prompt(**fields), CLAUDE) is use
    assert recall_use(prompt(**fields), RecallRules()) is RecallUse.NONE


@pytest.mark.parametrize(
    ("fields", "rules", "use"),
    [
        ({"response_format": JSON_FORM}, OPENAI, RecallUse.LISTED),
        ({"response_format": JSON_FORM}, CLAUDE, RecallUse.NONE),
        ({"response_format": JSON_FORM, "tools": [FIND]}, OPENAI, RecallUse.NONE),
        ({"response_format": JSON_FORM, "n": 2}, OPENAI, RecallUse.NONE),
        ({"response_format": JSON_FORM, "tool_choice": "none"}, OPENAI, RecallUse.NONE),
    ],
)
def test_an_answer_in_a_form_of_its_own_lists_the_tool_where_that_keeps_the_prefix(
    fields, rules, use
):
    given = prompt(**fields)
    rendered = orjson.loads(with_recall_tool(given, RecallUse.LISTED).render())

    assert recall_use(given, rules) is use
    assert rendered["tool_choice"] == "none"


@pytest.mark.parametrize("tools", [[], [FIND], None])
def test_the_tool_comes_behind_the_callers_own_and_all_else_stays(tools):
    fields = {"seed": 7, "tool_choice": "auto"} | ({} if tools is None else {"tools": tools})
    before = orjson.loads(prompt(**fields).render())
    after = orjson.loads(with_recall_tool(prompt(**fields), RecallUse.OFFERED).render())

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
    tools = orjson.loads(with_recall_tool(given, RecallUse.OFFERED).render())["tools"]

    assert (recall_use(given, CLAUDE) is RecallUse.OFFERED) is is_taken
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
    tools = orjson.loads(with_recall_tool(given, RecallUse.OFFERED).render())["tools"]

    rules = RecallRules(calls_tools=True, keeps_responses=keeps_responses)

    assert (recall_use(given, rules) is RecallUse.OFFERED) is is_taken
    assert tools[:-1] == fields.get("tools", [])
    assert (tools[-1]["type"], tools[-1]["name"]) == ("function", TOOL_NAME)
    assert tools[-1]["strict"] is False


@pytest.mark.parametrize(
    ("chosen", "calls_tools", "lists_tools"),
    [
        (route("openai"), True, True),
        (route("openai", can=frozenset({"vision"})), False, True),
        (route("openai", can=frozenset({"tools"})), True, True),
        (route("anthropic", "anthropic", traits=frozenset({"bound_thinking"})), True, False),
    ],
)
def test_routes_take_the_tool_where_models_call_tools(chosen, calls_tools, lists_tools):
    assert recall_rules(chosen) == RecallRules(calls_tools=calls_tools, lists_tools=lists_tools)
