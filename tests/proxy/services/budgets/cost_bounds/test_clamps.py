from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.eligibility.output_limits import (
    lowered_limit,
    output_allowance,
    prepared_endpoint,
    with_output_limit,
)
from proxy.calls.translation.converted_calls import convert_call
from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import Route
from proxy.providers.port import PreparedRequest
from proxy.services.budgets.cost_bounds.clamps import (
    clamp_note,
    is_limitable,
    output_limit_field,
)
from tests.fakes.call_dependencies import call, route

ASKED = [{"role": "user", "content": "hi"}]
OPENAI = route("openai")
OTHER = route("gpu")
CLAUDE = route("anthropic", "anthropic", max_output=8192, traits=frozenset({"budget_thinking"}))
#: Knows chat alone, and is asked Responses in it.
CHAT = replace(OTHER, upstream=replace(OTHER.upstream, serves_responses=False))


def prepare_for(over: Route, to: str = "chat/completions", **fields: object) -> PreparedRequest:
    prompt_fields = {"input": "hi"} if to == "responses" else {"messages": ASKED}
    sent_call = call(orjson.dumps({"model": "m", **prompt_fields, **fields}), to)
    converted = convert_call(sent_call, over)
    return prepare(sent_call if converted is None else converted.call, over)


def body(prepared: PreparedRequest) -> dict[str, Any]:
    fields: dict[str, Any] = orjson.loads(prepared.body)
    return fields


@pytest.mark.parametrize(
    ("over", "to", "fields", "field"),
    [
        (OPENAI, "chat/completions", {}, "max_completion_tokens"),
        (OPENAI, "chat/completions", {"max_tokens": 900}, "max_tokens"),
        (OTHER, "chat/completions", {}, "max_tokens"),
        (OTHER, "chat/completions", {"max_completion_tokens": 900}, "max_completion_tokens"),
        (OTHER, "chat/completions", {"max_completion_tokens": None}, "max_tokens"),
        (replace(OTHER, regime="openai-interval"), "chat/completions", {}, "max_completion_tokens"),
        (OPENAI, "responses", {}, "max_output_tokens"),
        (OPENAI, "responses", {"max_output_tokens": 900}, "max_output_tokens"),
        (CHAT, "responses", {"max_output_tokens": 900}, "max_completion_tokens"),
        (CHAT, "responses", {}, "max_tokens"),
        (OPENAI, "completions", {}, "max_tokens"),
        (CLAUDE, "chat/completions", {}, "max_tokens"),
        (CLAUDE, "chat/completions", {"max_completion_tokens": 900}, "max_tokens"),
        (CLAUDE, "responses", {"max_output_tokens": 900}, "max_tokens"),
    ],
)
def test_a_clamp_stands_in_the_field_that_is_used_or_else_known(over, to, fields, field):
    prepared = prepare_for(over, to, **fields)
    assert is_limitable(prepared)
    sent_fields = body(with_output_limit(prepared, over, 17))

    assert sent_fields.pop(field) == 17
    before = body(prepared)
    before.pop(field, None)
    assert sent_fields == before
    limits = {"max_tokens", "max_completion_tokens", "max_output_tokens"}
    assert not [name for name in limits & set(sent_fields) if sent_fields[name] is not None]


def test_both_fields_are_clamped_where_both_are_used():
    prepared = prepare_for(OTHER, max_tokens=900, max_completion_tokens=800)

    sent_fields = body(with_output_limit(prepared, OTHER, 17))

    assert (sent_fields["max_tokens"], sent_fields["max_completion_tokens"]) == (17, 17)


@pytest.mark.parametrize(
    ("to", "fields"),
    [
        ("chat/completions", {"max_tokens": "many"}),
        ("chat/completions", {"max_tokens": 5, "max_completion_tokens": 0}),
        ("embeddings", {}),
        ("images/generations", {}),
    ],
)
def test_a_body_without_a_valid_limit_is_not_clamped(to, fields):
    assert not is_limitable(prepare_for(OPENAI, to, **fields))


def test_a_prepared_request_says_where_it_goes():
    assert prepared_endpoint(prepare_for(CLAUDE)) == "messages"
    assert (
        prepared_endpoint(prepare(call(b"{}", "completions", query="a=b"), OTHER)) == "completions"
    )


@pytest.mark.parametrize(
    ("over", "to", "fields", "field"),
    [
        (CLAUDE, "chat/completions", {}, "max_tokens"),
        (CLAUDE, "chat/completions", {"max_completion_tokens": 5}, "max_completion_tokens"),
        (CLAUDE, "responses", {}, "max_output_tokens"),
        (OPENAI, "chat/completions", {}, "max_completion_tokens"),
        (OPENAI, "images/generations", {}, ""),
        (OPENAI, "responses/compact", {}, ""),
    ],
)
def test_a_caller_is_notified_of_its_own_field(over, to, fields, field):
    assert output_limit_field(call(orjson.dumps({"model": "m", **fields}), to), over) == field


def test_a_note_tells_of_a_clamp_and_can_be_read_again():
    note = clamp_note("max_tokens", 812, "c of $0.01 a call")

    assert note == "lowered max_tokens to 812: the ceiling c of $0.01 a call"
    assert lowered_limit(orjson.dumps([note]).decode()) == 812
    assert lowered_limit('["lowered max_tokens to 4096: the model\'s most"]') is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "thinking", "x"]
)


@given(
    st.dictionaries(NAMES, JSON, min_size=1),
    st.sampled_from(["chat/completions", "responses", "completions", "messages"]),
    st.integers(1, 10**6),
)
def test_a_clamped_request_may_generate_no_more_than_was_asked(fields, to, tokens):
    over = route(max_output=10**7)
    prepared = PreparedRequest(method="POST", path=f"/{to}", headers={}, body=orjson.dumps(fields))

    if is_limitable(prepared):
        lowered = with_output_limit(prepared, over, tokens)
        allowance = output_allowance(lowered.body, to, over)
        assert (allowance.per_choice, allowance.requested) == (tokens, tokens)
        assert allowance.choices == output_allowance(prepared.body, to, over).choices
