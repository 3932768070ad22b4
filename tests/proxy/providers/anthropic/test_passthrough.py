"""Calls of Anthropic's own API, as they are sent to an upstream that speaks it."""

from dataclasses import replace

import orjson
import pytest

from proxy.catalog.entries import Route, Upstream
from proxy.providers.anthropic.adapter import AnthropicWire
from proxy.providers.anthropic.passthrough import foreign_upstream
from proxy.providers.messages.signatures import own_signature
from proxy.providers.openai.adapter import OpenAIWire
from proxy.records.request_fields import parse_request_fields
from tests.fakes.call_dependencies import call, route
from tests.fakes.refusals import refusing

UPSTREAM = Upstream(name="a", kind="anthropic", base_url="https://a.test/v1")
ROUTE = Route(name="a/claude", upstream=UPSTREAM)
BODY = b'{ "model": "claude", "max_tokens": 9, "unknown": [1.0e2], "messages": [] }'


def messages(body: bytes = BODY, endpoint: str = "messages", **fields: object):
    read = parse_request_fields(body) if body.startswith(b"{") else None
    return call(body, endpoint=endpoint, fields=read, **fields)


def test_the_body_and_the_query_are_the_callers_own():
    call = messages(query="beta=true")
    prepared = AnthropicWire().request(call, ROUTE)

    assert prepared.body is call.body
    assert (prepared.method, prepared.path) == ("POST", "/messages?beta=true")
    assert (prepared.reader, prepared.notes) == (None, ())


def test_only_the_models_name_changes_where_the_catalog_says_so():
    prepared = AnthropicWire().request(messages(), replace(ROUTE, model="claude-1"))

    assert prepared.body == (b'{"model":"claude-1","max_tokens":9,"unknown":[1.0e2],"messages":[]}')


def test_version_and_betas_go_along_and_a_version_is_set_where_none_is():
    given = {"anthropic-version": "2030-01-01", "anthropic-beta": "x,  y", "openai-beta": "z"}
    headers = AnthropicWire().request(messages(headers=given), ROUTE).headers

    assert headers == {"anthropic-version": "2030-01-01", "anthropic-beta": "x,  y"}
    bare = AnthropicWire().request(messages(headers={}), ROUTE).headers
    assert bare == {"anthropic-version": "2023-06-01"}


def test_the_operators_betas_stand_beside_the_callers():
    own = replace(ROUTE, upstream=replace(UPSTREAM, headers={"Anthropic-Beta": "o"}))
    headers = AnthropicWire().request(messages(headers={"anthropic-beta": "x"}), own).headers

    assert headers["anthropic-beta"] == "o,x"


@pytest.mark.parametrize(
    ("endpoint", "method", "body"),
    [
        ("messages/count_tokens", "POST", BODY),
        ("messages/batches", "POST", b'{"requests":[]}'),
        ("messages/batches/b1/results", "GET", b""),
        ("files", "POST", b"--form--"),
    ],
)
def test_calls_of_provider_state_pass_through(endpoint, method, body):
    version = {"anthropic-version": "2023-06-01", "content-type": "multipart/form-data"}
    call = messages(body, endpoint, method=method, headers=version)
    prepared = AnthropicWire().request(call, ROUTE)

    assert (prepared.method, prepared.path, prepared.body) == (method, f"/{endpoint}", body)
    assert prepared.headers == version


def test_a_model_is_shown_as_the_upstream_shows_it_to_a_caller_of_its_own_api():
    version = {"anthropic-version": "2023-06-01"}
    model_call = call(b"", endpoint="models/claude", method="GET", fields=None, headers=version)
    prepared = AnthropicWire().request(model_call, replace(ROUTE, model="claude-1"))

    assert (prepared.path, prepared.reader) == ("/models/claude-1", None)


def test_an_upstream_of_another_api_refuses_by_name():
    with refusing(400, match="`claude` is served by an upstream") as caught:
        OpenAIWire().request(messages(), route())

    assert caught.value.code == foreign_upstream(messages(), route()).code


def test_claude_codes_attribution_line_goes_to_anthropic_alone():
    line = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1;"}
    body = orjson.dumps({"model": "claude", "system": [line, {"type": "text", "text": "Hi."}]})
    call = messages(body)
    elsewhere = replace(ROUTE, upstream=replace(UPSTREAM, provider="bedrock"))
    own = replace(ROUTE, upstream=replace(UPSTREAM, provider="anthropic"))

    assert AnthropicWire().request(call, own).body is body
    assert orjson.loads(AnthropicWire().request(call, elsewhere).body)["system"] == [
        {"type": "text", "text": "Hi."}
    ]


def thinking_block(signature: str) -> dict[str, str]:
    return {"type": "thinking", "thinking": "Hm.", "signature": signature}


def conversation(*blocks: dict[str, str]) -> list[dict[str, object]]:
    begun: dict[str, object] = {"role": "user", "content": "Why \u00fc?"}
    answer: dict[str, object] = {"role": "assistant", "content": list(blocks)}
    return [begun, answer, {"role": "user", "content": "And then?"}]


@pytest.mark.parametrize("endpoint", ["messages", "messages/count_tokens"])
def test_thinking_of_other_models_is_left_out_when_a_conversation_comes_to_claude(endpoint):
    claudes, words = thinking_block("EqQBCkYI"), {"type": "text", "text": "So."}
    turns = conversation(thinking_block(own_signature("Secret.")), claudes, words)
    call = messages(orjson.dumps({"model": "claude", "messages": turns}), endpoint)
    prepared = AnthropicWire().request(call, ROUTE)

    assert orjson.loads(prepared.body)["messages"] == conversation(claudes, words)
    assert prepared.notes == ("left out 1 thinking block of other models",)


def test_an_answer_that_was_nothing_but_another_models_thinking_is_left_out():
    turns = conversation(thinking_block(own_signature()), thinking_block(own_signature()))
    call = messages(orjson.dumps({"model": "claude", "messages": turns}))
    prepared = AnthropicWire().request(call, ROUTE)

    assert orjson.loads(prepared.body)["messages"] == [turns[0], turns[2]]
    assert prepared.notes == ("left out 2 thinking blocks of other models",)


@pytest.mark.parametrize(
    "turns",
    [
        conversation({"type": "text", "text": own_signature()}),
        conversation(thinking_block(f"E{own_signature()}")),
        [{"role": "user", "content": own_signature()}],
        [own_signature()],
    ],
)
def test_a_signature_of_ours_anywhere_else_changes_nothing(turns):
    call = messages(orjson.dumps({"model": "claude", "messages": turns}))

    assert AnthropicWire().request(call, ROUTE).body is call.body


RESULTS = b"https://api.anthropic.com/v1/messages/batches/b1/results"


@pytest.mark.parametrize(
    ("endpoint", "method"),
    [
        ("messages/batches", "POST"),
        ("messages/batches", "GET"),
        ("messages/batches/b1", "GET"),
        ("messages/batches/b1/cancel", "POST"),
    ],
)
@pytest.mark.parametrize(
    ("address", "path"),
    [
        (RESULTS, b"/v1/messages/batches/b1/results"),
        (RESULTS.replace(b"/", rb"\/"), rb"\/v1\/messages\/batches\/b1\/results"),
        (
            b"http://proxy.test/anthropic/v1/messages/batches/b1/results",
            b"/v1/messages/batches/b1/results",
        ),
        (b"https://files.test/b1.jsonl", b"https://files.test/b1.jsonl"),
    ],
)
def test_the_address_of_a_batchs_results_leads_back_to_the_gateway(endpoint, method, address, path):
    call = messages(b"", endpoint, method=method, headers={})
    reader = AnthropicWire().request(call, ROUTE).reader
    answer = b'{ "id":"b1", "results_url" : "%s", "x":1.0 }'

    assert reader is not None
    assert reader.feed(answer % address) + reader.end() == answer % path
    assert reader.feed(b'{"results_url":null}') == b'{"results_url":null}'


@pytest.mark.parametrize("endpoint", ["messages/batches/b1/results", "messages"])
def test_other_answers_of_an_anthropic_upstream_are_passed_on_unread(endpoint):
    assert AnthropicWire().request(messages(b"", endpoint, headers={}), ROUTE).reader is None
