"""The API in which a model takes a chat call: chat completions, or Responses."""

import msgspec
import orjson
import pytest

from proxy.providers.fitting.chat_forms import (
    accepted_forms,
    goes_by_responses,
    has_tools,
    required_form,
    takes_chat_tools,
)
from tests.fakes.call_dependencies import chat_alone, route

TOOLS = {"tools": [{"type": "function", "function": {"name": "look"}}]}
ALWAYS_REASONS = frozenset({"tools_at_none"})
MAY_REASON = frozenset({"tools_at_none", "effort_none"})
NO_CHAT = frozenset({"responses_only"})


def fields(**fields: object) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(orjson.dumps(fields), type=dict[str, msgspec.Raw])


@pytest.mark.parametrize(
    ("traits", "body", "by_responses"),
    [
        (ALWAYS_REASONS, TOOLS, True),
        (MAY_REASON, {**TOOLS, "reasoning_effort": "low"}, True),
        (MAY_REASON, {**TOOLS, "reasoning_effort": "none"}, False),
        (MAY_REASON, {"tools": []}, False),
        (MAY_REASON, {**TOOLS, "stop": ["x"]}, False),
        (MAY_REASON, {**TOOLS, "stop": None, "n": 1, "logprobs": False}, True),
        (MAY_REASON, {**TOOLS, "n": 2}, False),
        (NO_CHAT, {}, True),
        (NO_CHAT, {"stop": "x"}, False),
        (frozenset(), TOOLS, False),
    ],
)
def test_a_call_goes_by_responses_where_chat_refuses_it_and_nothing_is_lost(
    traits, body, by_responses
):
    there = route(traits=traits)

    assert goes_by_responses(fields(**body), there) is by_responses
    assert not goes_by_responses(fields(**body), chat_alone(there))


@pytest.mark.parametrize(
    ("traits", "in_chat", "anywhere"),
    [
        (frozenset(), {"chat", "chat_tools"}, True),
        (MAY_REASON, {"chat", "chat_tools"}, True),
        (ALWAYS_REASONS, {"chat"}, True),
        (NO_CHAT, set(), True),
    ],
)
def test_a_feature_of_chat_alone_needs_a_model_that_takes_it_there(traits, in_chat, anywhere):
    forms = accepted_forms(route(traits=traits))

    assert forms & {"chat", "chat_tools"} == in_chat
    assert ({"chat_or_responses", "chat_or_responses_tools"} <= forms) is anywhere
    assert "chat_or_responses_tools" not in accepted_forms(chat_alone(route(traits=ALWAYS_REASONS)))
    assert takes_chat_tools(route(traits=traits)) is ("chat_tools" in in_chat)


def test_the_form_that_a_call_needs_is_named_by_its_features():
    assert required_form(frozenset({"stop"}), has_tools=True) == "chat_tools"
    assert required_form(frozenset({"forced_tools"}), has_tools=True) == "chat_or_responses_tools"
    assert required_form(frozenset(), has_tools=False) == "chat_or_responses"


@pytest.mark.parametrize("tools", [{}, {"tools": None}, {"tools": []}, {"functions": []}])
def test_an_empty_list_is_no_tool(tools):
    assert not has_tools(fields(**tools))
    assert has_tools(fields(**tools) | fields(**TOOLS))
