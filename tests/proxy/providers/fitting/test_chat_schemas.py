"""Schemas of translated chat calls, as providers of OpenAI endpoints take them."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from msgspec import Raw

from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import Route
from proxy.providers.fitting.chat_schemas import fit_body_schemas, fit_chat_schemas
from proxy.providers.fitting.schema_fitting import fit_schema
from proxy.providers.fitting.schema_rules import XAI
from tests.fakes.call_dependencies import call, chat_alone, route

SCHEMA: dict[str, Any] = {
    "$schema": "x",
    "type": "object",
    "properties": {"count": {"type": "number", "exclusiveMinimum": 0}},
    "additionalProperties": False,
}
FITTED: dict[str, Any] = {
    "type": "object",
    "properties": {"count": {"type": "number", "description": "{exclusiveMinimum: 0}"}},
}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FORM = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL, TOOL]}
NOTES = [
    "said exclusiveMinimum of tools in descriptions: the model takes no such keywords",
    "said exclusiveMinimum of response_format in descriptions: the model takes no such keywords",
]


def google() -> Route:
    return chat_at("google", model="gemini-x")


def chat_at(provider: str, base_url: str = "https://api.lab/v1", model: str = "m") -> Route:
    served = chat_alone(route("two", model=model))
    return replace(served, upstream=replace(served.upstream, provider=provider, base_url=base_url))


def test_tools_and_format_of_a_fallback_to_google_are_fitted_with_notes():
    prepared = prepare(
        call(orjson.dumps(ASKED | {"response_format": FORM})), google(), is_substitute=True
    )
    sent = orjson.loads(prepared.body)

    assert [tool["function"]["parameters"] for tool in sent["tools"]] == [FITTED, FITTED]
    assert sent["response_format"]["json_schema"]["schema"] == FITTED
    assert [note for note in prepared.notes if note.startswith("said")] == NOTES


def test_tools_of_a_responses_call_to_google_are_fitted():
    tool = {"type": "function", "name": "f", "parameters": SCHEMA}
    body = orjson.dumps({"model": "m", "input": "Hi", "tools": [tool]})
    prepared = prepare(call(body, "responses"), google())

    assert orjson.loads(prepared.body)["tools"][0]["function"]["parameters"] == FITTED
    assert NOTES[0] in prepared.notes


def test_schemas_that_change_without_a_note_are_sent_fitted():
    definition = {"type": "object", "properties": {}}
    schema = {"$ref": "#/$defs/A", "$defs": {"A": definition}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    fields, notes = fit_body_schemas(orjson.dumps({"tools": [tool]}), google())

    assert orjson.loads(fields["tools"])[0]["function"]["parameters"] == definition
    assert notes == []


def test_tool_with_a_schema_too_deep_to_rewrite_is_sent_unmodified_with_a_note():
    deep = b'{"items":' * 500 + b"{}" + b"}" * 500
    body = b'{"tools":[{"function":{"parameters":' + deep + b"}}]}"

    assert fit_body_schemas(body, google()) == (
        {},
        ["left a schema of tools unmodified: it is too deep to rewrite"],
    )


def test_schemas_for_other_providers_and_odd_tools_stay_unmodified():
    body = orjson.dumps(ASKED)
    odd = orjson.dumps({"tools": [5, {"function": 5}, {"function": {"name": "f"}}]})

    assert fit_body_schemas(body, route()) == ({}, [])
    assert fit_body_schemas(odd, google()) == ({}, [])
    assert fit_chat_schemas({}, google()) == []


@pytest.mark.parametrize(
    ("served", "strict", "is_fitted"),
    [
        (chat_at("deepseek"), True, False),
        (chat_at("deepseek", "https://api.deepseek.com/beta"), True, True),
        (chat_at("deepseek", "https://api.deepseek.com/beta"), False, False),
        (chat_at("bedrock"), True, True),
        (chat_at("bedrock"), False, False),
        (chat_at("xai"), False, True),
        (chat_at("groq"), True, False),
    ],
)
def test_tools_are_held_to_what_their_provider_documents(served, strict, is_fitted):
    schema = {"type": "array", "items": [{}], "minItems": 2, "maxContains": 3}
    function = {"name": "f", "strict": strict, "parameters": schema}
    fields, notes = fit_body_schemas(orjson.dumps({"tools": [{"function": function}]}), served)

    assert bool(fields) is bool(notes) is is_fitted
    assert (b'"maxContains":' in fields.get("tools", b"")) is False


def test_xai_gets_any_object_where_a_reference_would_lead_back():
    tree = {
        "$ref": "#/$defs/Tree",
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
            }
        },
    }
    fitted = fit_schema(Raw(orjson.dumps(tree)), XAI)

    assert (fitted.is_recursive, fitted.moved) == (True, ("$ref",))
    assert orjson.loads(bytes(fitted.schema))["properties"]["children"]["items"] == {
        "type": "object",
        "additionalProperties": True,
        "description": "{$ref: Tree}",
    }


@pytest.mark.parametrize(
    ("given_schema", "expected"),
    [
        ({"items": [{"type": "string"}]}, {"prefixItems": [{"type": "string"}]}),
        ({"properties": {"a": True}}, {"properties": {"a": {}}}),
        ({"maxContains": 3}, {"description": "{maxContains: 3}"}),
        ({"enum": []}, {"description": "{enum: []}"}),
        ({"pattern": r"^(?:a|b)\d$"}, {"pattern": r"^(?:a|b)\d$"}),
        ({"pattern": "(?!a)b"}, {"description": "{pattern: (?!a)b}"}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {}}}, {"$ref": "#/$defs/A", "$defs": {"A": {}}}),
    ],
)
def test_xai_gets_what_it_takes_in_place_of_what_it_refuses(given_schema, expected):
    assert orjson.loads(bytes(fit_schema(Raw(orjson.dumps(given_schema)), XAI).schema)) == expected


def test_a_callers_own_chat_call_to_google_keeps_its_bytes():
    body = orjson.dumps(ASKED | {"model": "gemini-x"})

    assert prepare(call(body), google()).body == body
