import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.explain.diagnostics import diagnostics_question, provider_reason
from proxy.prefix.explain.reasons import MissReason, ProviderReason


def answer(reason: object, tokens: object = 120) -> bytes:
    cause = {"type": reason, "cache_missed_input_tokens": tokens}
    return msgspec.json.encode({"id": "msg_1", "diagnostics": {"cache_miss_reason": cause}})


def response(**said: object) -> bytes:
    diagnostics = {"type": "cache_miss", **said}
    return msgspec.json.encode({"id": "resp_1", "prompt_cache_diagnostics": diagnostics})


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("model_changed", MissReason.PARAMETER_CHANGED),
        ("system_changed", MissReason.DIVERGED),
        ("tools_changed", MissReason.DIVERGED),
        ("messages_changed", MissReason.DIVERGED),
    ],
)
def test_anthropics_reasons_are_ours(named, reason):
    found = provider_reason(answer(named))

    assert found is not None
    assert (found.reason, found.tokens) == (reason, 120)


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("prompt_cache_key_changed", MissReason.ELSEWHERE),
        ("context_compacted", MissReason.COMPACTED),
        ("input_changed", MissReason.DIVERGED),
        ("service_tier_changed", MissReason.PARAMETER_CHANGED),
    ],
)
def test_openais_reasons_are_ours(named, reason):
    found = provider_reason(response(reason=named, cache_missed_tokens=7))

    assert found is not None
    assert (found.reason, found.tokens) == (reason, 7)


def test_the_reason_stands_at_the_start_of_anthropics_stream_and_in_openais_response():
    start = b'{"type": "message_start", "message": ' + answer("tools_changed") + b"}"
    end = b'{"type": "response.completed", "response": ' + response(reason="input_changed") + b"}"

    assert provider_reason(start) == ProviderReason(MissReason.DIVERGED, "the tools changed", 120)
    assert provider_reason(end) == ProviderReason(MissReason.DIVERGED, "the input changed")


@pytest.mark.parametrize(
    "silent",
    [
        b"{}",
        b'{"diagnostics": null}',
        b'{"diagnostics": {"cache_miss_reason": null}}',
        answer("previous_message_not_found"),
        answer("unavailable"),
        answer(["tools_changed"]),
        response(type="cache_hit"),
        response(type="comparison_response_not_found"),
        b'{"diagnostics": [1]}',
        b'{"diagnostics"',
        b"[" * 100_000 + b"diagnostics",
    ],
)
def test_an_answer_without_a_reason_says_nothing(silent):
    assert provider_reason(silent) is None


@pytest.mark.parametrize("tokens", [-1, True, "7", None])
def test_a_count_that_is_none_is_left_out(tokens):
    assert provider_reason(answer("tools_changed", tokens)) == ProviderReason(
        MissReason.DIVERGED, "the tools changed"
    )


@given(st.binary())
def test_no_answer_makes_it_fail(raw):
    provider_reason(raw + b"diagnostics")


def test_what_generated_text_says_is_not_believed():
    said = msgspec.json.encode({"content": [{"text": answer("tools_changed").decode()}]})

    assert provider_reason(said) is None


def test_a_question_names_the_answer_before():
    anthropic = diagnostics_question("messages", 'msg_"1')
    openai = diagnostics_question("responses", "resp_1")

    assert anthropic is not None
    assert (anthropic.field, anthropic.value) == (
        "diagnostics",
        rb'{"previous_message_id":"msg_\"1"}',
    )
    assert anthropic.headers == {"anthropic-beta": "cache-diagnosis-2026-04-07"}
    assert openai is not None
    assert (openai.field, openai.value) == (
        "prompt_cache_options",
        b'{"comparison_response_id":"resp_1"}',
    )
    assert diagnostics_question("chat", "x") is None


def test_a_first_call_asks_where_only_those_that_ask_can_be_compared_with():
    anthropic = diagnostics_question("messages", "")

    assert anthropic is not None
    assert anthropic.value == b'{"previous_message_id":null}'
    assert diagnostics_question("responses", "") is None
