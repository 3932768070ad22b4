"""A chat call as a Responses call, for models that take it so alone."""

from typing import Any

import orjson
import pytest
from openai.types.responses import ResponseCreateParams
from pydantic import TypeAdapter

from proxy.calls.translation.translation import prepare
from proxy.providers.port import PreparedRequest
from tests.fakes.call_dependencies import call, route
from tests.fakes.refusals import refusing

TRAITS = frozenset(
    {"max_completion_tokens", "effort", "developer", "openai_params", "parallel_tools",
     "forced_tools", "custom_tools", "verbosity", "seed", "tools_at_none"}
)  # fmt: skip
HELLO = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "number", "maximum": 1.0}}}
LOOK = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}


def sent_request(**members: Any) -> PreparedRequest:
    """The request of a translated call that says this, beside a tool."""
    fields = {"model": "m", "messages": HELLO, "tools": [LOOK], **members}
    there = route("openai", traits=TRAITS, model="gpt-x")
    return prepare(call(orjson.dumps(fields)), there, is_substitute=True)


def body(**fields: Any) -> dict[str, Any]:
    prepared = sent_request(**fields)
    body: dict[str, Any] = orjson.loads(prepared.body)
    assert prepared.path == "/responses"
    TypeAdapter(ResponseCreateParams).validate_python(body)
    return body


def test_a_call_with_tools_keeps_its_effort_and_says_how_it_went():
    prepared = sent_request(reasoning_effort="high", max_tokens=50)

    assert orjson.loads(prepared.body) == {
        "model": "gpt-x",
        "input": HELLO,
        "tools": [{"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}],
        "max_output_tokens": 50,
        "reasoning": {"effort": "high"},
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    assert prepared.notes[-1].startswith("sent by the Responses API")


@pytest.mark.parametrize(
    ("fields", "becomes"),
    [
        ({"max_completion_tokens": 5}, {"max_output_tokens": 16}),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "look"}}},
            {"tool_choice": {"type": "function", "name": "look"}},
        ),
        (
            {"tool_choice": {
                "type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [LOOK]}}},
            {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [
                {"type": "function", "name": "look"}]}},
        ),
        (
            {"response_format": {
                "type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}},
        ),
        (
            {"response_format": {"type": "json_object"}},
            {"text": {"format": {"type": "json_object"}}},
        ),
        ({"store": True, "metadata": {"a": "b"}}, {"store": True, "metadata": {"a": "b"}}),
        ({"prompt_cache_key": "k", "user": "u"}, {"prompt_cache_key": "k", "user": "u"}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"n": 1, "stop": None, "stream_options": {"include_usage": True}}, {}),
    ],
)  # fmt: skip
def test_parameters_are_said_in_the_words_of_responses(fields, becomes):
    sent, plain = body(**fields), body()

    assert {name: value for name, value in sent.items() if value != plain.get(name)} == {
        name: value for name, value in becomes.items() if value != plain.get(name)
    }


def test_a_field_that_responses_lack_and_that_only_steers_is_dropped_with_a_note():
    prepared = sent_request(seed=1)

    assert b"seed" not in prepared.body
    assert "dropped seed: the Responses API has no such parameter" in prepared.notes


def test_a_call_without_tools_stays_in_chat():
    assert sent_request(tools=[]).path == "/chat/completions"


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"messages": 7}, "messages"),
        ({"messages": [{"role": "assistant", "content": [{"type": ["text"]}]}]}, "content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "text"),
        ({"tools": [{"type": ["function"]}]}, "tools"),
        ({"tool_choice": {"name": "look"}}, "tool_choice"),
        ({"response_format": {"type": "json_schema", "json_schema": 5}}, "json_schema"),
    ],
)
def test_a_malformed_call_is_refused_by_the_place_of_its_mistake(fields, place):
    with refusing(400, match=place):
        sent_request(**fields)


def test_a_call_for_the_callers_own_model_is_not_translated():
    raw = orjson.dumps({"model": "gpt-x", "messages": HELLO, "tools": [LOOK]})
    prepared = prepare(call(raw), route("openai", traits=TRAITS, model="gpt-x"))

    assert (prepared.path, prepared.body) == ("/chat/completions", raw)
