"""Schemas of translated chat calls, as Google's OpenAI endpoint takes them."""

from dataclasses import replace
from typing import Any

import orjson

from proxy.calls.translation import prepare
from proxy.catalog.entries import Route
from proxy.providers.chat_schemas import fit_body_schemas, fit_chat_schemas
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
    served = chat_alone(route("two", model="gemini-x"))
    return replace(served, upstream=replace(served.upstream, provider="google"))


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


def test_a_callers_own_chat_call_to_google_keeps_its_bytes():
    body = orjson.dumps(ASKED | {"model": "gemini-x"})

    assert prepare(call(body), google()).body == body
