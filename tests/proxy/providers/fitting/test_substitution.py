"""Tests of what a request that another model answers says in that model's words."""

from typing import Any

import orjson
import pytest

from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import Route, Upstream
from proxy.providers.fitting.substitution import accepted_traits, translate_for_substitute
from proxy.providers.port import PreparedRequest
from tests.fakes.call_dependencies import call, chat_alone, route
from tests.fakes.refusals import refusing

REASONING = frozenset(
    {"max_completion_tokens", "effort", "effort_xhigh", "developer", "stop", "openai_params"}
)
OLDER = frozenset({"max_tokens", "sampling", "stop"})


def prepare_for(
    traits: frozenset[str], endpoint: str = "chat/completions", **fields: Any
) -> PreparedRequest:
    """The translated request of a call that says this."""
    body = orjson.dumps({"model": "m", **fields})
    there = route("two", traits=traits, model="theirs")
    if endpoint != "responses":
        there = chat_alone(there)
    return prepare(call(body, endpoint), there, is_substitute=True)


def fields(prepared: PreparedRequest) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(prepared.body)
    return {name: value for name, value in read.items() if name != "model"}


@pytest.mark.parametrize(
    ("traits", "body", "becomes"),
    [
        (REASONING, {"max_tokens": 50}, {"max_completion_tokens": 50}),
        (OLDER, {"max_completion_tokens": 50}, {"max_tokens": 50}),
        (REASONING, {"max_tokens": 9, "max_completion_tokens": 5}, {"max_completion_tokens": 5}),
        (REASONING, {"temperature": 0.2, "top_p": 0.9, "top_k": 3}, {}),
        (OLDER, {"temperature": 0.2, "top_k": 3}, {"temperature": 0.2}),
        (REASONING, {"reasoning_effort": "minimal"}, {"reasoning_effort": "low"}),
        (REASONING, {"reasoning_effort": "max"}, {"reasoning_effort": "xhigh"}),
        (REASONING, {"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        (OLDER, {"reasoning_effort": "high"}, {}),
        (
            REASONING,
            {"thinking": {"type": "enabled", "budget_tokens": 4096}},
            {"reasoning_effort": "medium"},
        ),
        (OLDER, {"thinking": {"type": "adaptive"}}, {}),
        (OLDER, {"verbosity": "low", "store": True, "seed": 1, "parallel_tool_calls": False}, {}),
        (REASONING, {"store": True, "stop": ["x"]}, {"store": True, "stop": ["x"]}),
    ],
)
def test_parameters_are_said_in_the_models_own_words(traits, body, becomes):
    prepared = prepare_for(traits, **body)

    assert fields(prepared) == becomes
    assert bool(prepared.notes) == (body != becomes)


def test_a_prediction_is_passed_where_it_is_taken_and_left_out_with_a_note_where_not():
    prediction = {"type": "content", "content": "def f(): ..."}
    left_out = prepare_for(OLDER, prediction=prediction)

    assert fields(prepare_for(OLDER | {"prediction"}, prediction=prediction)) == {
        "prediction": prediction
    }
    assert fields(left_out) == {}
    assert any("prediction" in note for note in left_out.notes)


def test_sampling_goes_where_it_is_taken_without_an_effort_only():
    traits = REASONING | {"effort_none", "sampling_at_none"}

    assert (
        fields(prepare_for(traits, temperature=0.2, reasoning_effort="none"))["temperature"] == 0.2
    )
    assert fields(prepare_for(traits, temperature=0.2)) == {}


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("effort", [{}, {"reasoning_effort": "high"}])
def test_tools_beside_reasoning_go_with_effort_none_and_a_note_where_chat_refuses_them(effort):
    traits = REASONING | {"effort_none", "tools_at_none"}
    prepared = prepare_for(traits, tools=[TOOL], **effort)

    assert fields(prepared) == {"tools": [TOOL], "reasoning_effort": "none"}
    assert prepared.notes[-1].startswith("sent reasoning_effort none: in chat completions")


@pytest.mark.parametrize(
    "tools", [{}, {"tools": []}, {"tools": [TOOL], "reasoning_effort": "none"}]
)
def test_a_chat_call_that_is_not_refused_keeps_its_effort(tools):
    traits = REASONING | {"effort_none", "tools_at_none"}
    message = {"reasoning_effort": "low", **tools}

    assert fields(prepare_for(traits, **message)) == message


@pytest.mark.parametrize(
    ("trait", "tools", "why"),
    [("tools_at_none", [TOOL], "takes no tools"), ("responses_only", [], "Responses API alone")],
)
def test_a_model_that_chat_cannot_ask_is_refused_by_name(trait, tools, why):
    with refusing(400, match=why):
        prepare_for(REASONING | {trait}, tools=tools)


def test_the_role_developer_is_system_where_the_model_does_not_know_it():
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": 'I said "developer".'},
    ]

    assert fields(prepare_for(REASONING, messages=messages))["messages"] == messages
    prepared = prepare_for(OLDER, messages=messages)
    assert [field["role"] for field in fields(prepared)["messages"]] == ["system", "user"]
    assert prepared.notes == ("sent the role developer as system",)


def test_thoughts_of_another_provider_are_left_out():
    thought = {"role": "assistant", "content": "Hi", "thinking_blocks": [{}], "tool_calls": []}
    prepared = prepare_for(OLDER, messages=[thought])

    assert fields(prepared)["messages"] == [
        {"role": "assistant", "content": "Hi", "tool_calls": []}
    ]
    assert prepared.notes == ("dropped thinking_blocks: the model does not take it",)


def test_a_responses_calls_effort_and_sampling_are_translated():
    prepared = prepare_for(
        REASONING, "responses", input="Hi", temperature=1, reasoning={"effort": "max"}
    )

    assert fields(prepared) == {"input": "Hi", "reasoning": {"effort": "xhigh"}}


def test_a_responses_call_that_is_said_in_chat_has_the_models_output_limit():
    upstream = Upstream(name="two", kind="openai", base_url="http://two", serves_responses=False)
    there = Route(name="two/m", upstream=upstream, traits=OLDER, model="theirs")
    body = b'{"model":"m","input":"Hi","max_output_tokens":70}'
    prepared = prepare(call(body, "responses"), there, is_substitute=True)

    assert fields(prepared)["max_tokens"] == 70


def test_a_body_that_the_model_accepts_goes_byte_for_byte():
    body = b'{ "model": "m",  "max_tokens": 5e0, "messages":[ {"role":"user"} ] }'
    prepared = prepare(call(body), route("two", traits=OLDER), is_substitute=True)

    assert prepared.body == body


def test_values_that_stay_are_the_callers_bytes():
    body = b'{"model":"m","max_tokens":5,"messages":[ {"role":"user","x":1.50e1} ]}'
    prepared = prepare(call(body), route("two", traits=REASONING), is_substitute=True)

    assert b'[ {"role":"user","x":1.50e1} ]' in prepared.body
    assert b'"max_completion_tokens":5' in prepared.body


def test_the_callers_own_model_gets_the_callers_bytes():
    body = b'{"model":"m","max_tokens":5,"temperature":0.2,"top_k":3}'

    assert prepare(call(body), route("two", traits=REASONING)).body == body


@pytest.mark.parametrize("body", [b"[", b'{"reasoning_effort":7}', b'{"messages":7}'])
def test_an_unreadable_body_goes_on_for_the_upstream_to_refuse(body):
    prepared = PreparedRequest(method="POST", path="/chat/completions", headers={}, body=body)

    assert translate_for_substitute(prepared, route("two", traits=REASONING)).body == body


def test_a_call_that_generates_no_chat_is_left_unmodified():
    prepared = PreparedRequest(method="POST", path="/embeddings", headers={}, body=b'{"user":"u"}')

    assert translate_for_substitute(prepared, route("two", traits=OLDER)) is prepared


def test_a_model_of_which_nobody_said_what_it_takes_is_like_others_of_its_provider():
    openai = Upstream(name="o", kind="openai", base_url="", provider="openai")
    claude = Upstream(name="a", kind="anthropic", base_url="", provider="anthropic")

    assert "max_completion_tokens" in accepted_traits(Route(name="x", upstream=openai))
    assert "max_tokens" in accepted_traits(route("vllm"))
    assert "max_tokens" not in accepted_traits(Route(name="x", upstream=openai))
    assert accepted_traits(Route(name="x", upstream=claude)) == {
        "server_tools",
        "stop",
        "functions",
    }
    assert accepted_traits(route("two", traits=OLDER)) == OLDER


@pytest.mark.parametrize(
    ("traits", "body", "becomes"),
    [
        (OLDER, {"max_tokens": None, "max_completion_tokens": 9}, {"max_tokens": 9}),
        (REASONING, {"max_tokens": 9, "max_completion_tokens": None}, {"max_completion_tokens": 9}),
        (REASONING, {"max_tokens": 5, "thinking": None}, {"max_completion_tokens": 5}),
        (REASONING, {"max_tokens": 5, "thinking": 7}, {"max_completion_tokens": 5}),
        (
            REASONING,
            {"max_tokens": 5, "reasoning_effort": ["high"]},
            {"max_completion_tokens": 5, "reasoning_effort": ["high"]},
        ),
        (OLDER, {"max_completion_tokens": 5, "reasoning_effort": {"a": 1}}, {"max_tokens": 5}),
        (
            OLDER,
            {"max_completion_tokens": 5, "messages": [{"role": "developer"}, None]},
            {"max_tokens": 5, "messages": [{"role": "system"}, None]},
        ),
    ],
)
def test_a_field_that_cannot_be_read_keeps_no_other_from_being_translated(traits, body, becomes):
    assert fields(prepare_for(traits, **body)) == becomes


def test_a_responses_call_to_a_model_that_does_not_reason_says_nothing_of_reasoning():
    given = {
        "input": [
            {"type": "reasoning", "encrypted_content": "x"},
            {"role": "user", "content": "a"},
        ],
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "text": {"verbosity": "low", "format": {"type": "text"}},
    }
    prepared = prepare_for(OLDER, "responses", **given)

    assert fields(prepared) == {
        "input": [{"role": "user", "content": "a"}],
        "include": ["message.output_text.logprobs"],
        "text": {"format": {"type": "text"}},
    }
    assert len(prepared.notes) == 5


def test_a_responses_call_with_an_effort_of_a_wrong_type_goes_on_for_the_upstream_to_refuse():
    assert fields(prepare_for(REASONING, "responses", reasoning={"effort": ["x"]})) == {
        "reasoning": {"effort": ["x"]}
    }


def test_claude_in_chats_form_keeps_thinking_and_its_signed_blocks() -> None:
    signed = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    message = {
        "thinking": {"type": "adaptive"},
        "messages": [{"role": "assistant", "content": "Hi", "thinking_blocks": [signed]}],
    }
    upstream = Upstream(name="u", kind="openai", base_url="https://u.test/v1", provider="proxy")
    there = Route(name="u/c", upstream=upstream, regime="anthropic-breakpoint")
    prepared = prepare(call(orjson.dumps({"model": "m", **message})), there, is_substitute=True)

    assert fields(prepared) == message
    assert prepared.notes == ()
