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
    assert takes_recall(prompt(**fields)) is is_taken


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
    ("chosen", "body", "is_taken"),
    [
        (route("openai"), b"{}", True),
        (route("openai", can=frozenset({"vision"})), b"{}", False),
        (route("openai", can=frozenset({"tools"})), b"{}", True),
        (route("anthropic", "anthropic"), b"{}", True),
        (route("anthropic", "anthropic"), b'{"thinking":{"type":"enabled"}}', False),
        (route("anthropic", "anthropic"), b'{"reasoning_effort":"low"}', False),
        (route("anthropic", "anthropic"), b'{"reasoning_effort":"none"}', True),
        (route("anthropic", "anthropic"), b"no json", False),
        (route("anthropic", "anthropic", traits=frozenset({"bound_thinking"})), b"{}", False),
        (route("openai"), b'{"reasoning_effort":"high"}', True),
    ],
)
def test_routes_take_the_tool_where_models_call_tools_and_sign_no_thinking(chosen, body, is_taken):
    assert route_takes_recall(body, chosen) is is_taken
