"""Asking a provider about the answer before: whose, when, and when not."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.explain.reasons import MissReason, ProviderReason
from proxy.prefix.planned import Planned, PlanningTarget
from proxy.prefix.provider_diagnostics import (
    RETRY_AFTER_S,
    ProviderDiagnostics,
    diagnostics_question,
    provider_reason,
)
from tests.proxy.prefix.planning_requests import (
    NOW,
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    planning_request,
)

CLAUDE = msgspec.structs.replace(TARGETS["anthropic-breakpoint"], asks="messages")
GPT = msgspec.structs.replace(TARGETS["openai-breakpoint"], asks="responses")


#: What the processes of a test share.
PLANS: dict[str, bytes] = {}


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
def test_anthropics_diagnostics_map_to_miss_reasons(named, reason):
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
def test_openais_diagnostics_map_to_miss_reasons(named, reason):
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
def test_an_answer_without_diagnostics_gives_no_reason(silent):
    assert provider_reason(silent) is None


@pytest.mark.parametrize("tokens", [-1, True, "7", None])
def test_a_token_count_that_is_no_number_is_left_out(tokens):
    assert provider_reason(answer("tools_changed", tokens)) == ProviderReason(
        MissReason.DIVERGED, "the tools changed"
    )


@given(st.binary())
def test_no_answer_makes_reading_diagnostics_fail(raw):
    provider_reason(raw + b"diagnostics")


def test_generated_text_is_not_read_as_diagnostics():
    said = msgspec.json.encode({"content": [{"text": answer("tools_changed").decode()}]})

    assert provider_reason(said) is None


def test_a_diagnostics_question_names_the_previous_answer():
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


@pytest.fixture(autouse=True)
def nothing_is_decided() -> None:
    PLANS.clear()


def plan(turns: int = 0, to: PlanningTarget = CLAUDE, share: float = 0.0, **fields: Any) -> Planned:
    call = planning_request(body(*conversation_messages(turns), **fields.pop("said", {})), **fields)
    return PlanningProcess(to, plans=PLANS, share=share).plan(call)


def previous(questions: ProviderDiagnostics, call: Planned) -> object:
    """The answer that the call asks about; False where it asks nothing."""
    question = questions.add_question(call, NOW).question
    if question is None:
        return False
    return next(iter(msgspec.json.decode(question.value).values()))


def test_a_later_call_asks_about_the_answer_before_it():
    questions = ProviderDiagnostics()
    questions.record_answer(plan(0), "msg_1")
    questions.record_answer(plan(1), "msg_2")

    assert previous(questions, plan(2)) == "msg_2"


def test_a_first_call_asks_anthropic_about_nothing_so_that_the_next_one_can_ask():
    assert previous(ProviderDiagnostics(), plan(0)) is None


def test_a_first_call_asks_openai_nothing():
    questions = ProviderDiagnostics()
    assert previous(questions, plan(0, GPT)) is False

    questions.record_answer(plan(0, GPT), "resp_1")
    assert previous(questions, plan(1, GPT)) == "resp_1"


def test_a_conversation_that_begins_again_asks_about_no_answer():
    questions = ProviderDiagnostics()
    questions.record_answer(plan(2), "msg_1")

    assert previous(questions, plan(0)) is None
    assert previous(questions, plan(2)) is None


@pytest.mark.parametrize(
    "other",
    [
        {"team": "team_2"},
        {"key": "key_2"},
        {"feature": "other"},
        {"to": msgspec.structs.replace(CLAUDE, upstream="elsewhere")},
    ],
)
def test_a_question_never_names_another_conversations_answer(other):
    questions = ProviderDiagnostics()
    questions.record_answer(plan(0), "msg_1")

    assert previous(questions, plan(1)) == "msg_1"
    assert previous(questions, plan(1, **other)) is None


def test_an_answer_without_an_id_is_not_remembered():
    questions = ProviderDiagnostics()
    questions.record_answer(plan(0), "")

    assert len(questions) == 0


def test_a_call_with_a_variable_tail_is_not_compared_with():
    questions = ProviderDiagnostics()
    call = plan(0)
    prompt = msgspec.structs.replace(call.prompt, tail=1)
    questions.record_answer(msgspec.structs.replace(call, prompt=prompt), "msg_1")

    assert previous(questions, plan(1)) is None


def test_a_route_without_diagnostics_is_not_asked():
    deaf = msgspec.structs.replace(CLAUDE, asks="")
    questions = ProviderDiagnostics()
    questions.record_answer(plan(0, deaf), "msg_1")

    assert previous(questions, plan(1, deaf)) is False
    assert len(questions) == 0


def test_the_control_arm_asks_nothing():
    assert previous(ProviderDiagnostics(), plan(0, share=1.0)) is False


def test_openai_is_not_asked_beside_a_retention_for_it_refuses_both():
    questions = ProviderDiagnostics()
    questions.record_answer(plan(0, GPT), "resp_1")

    assert previous(questions, plan(1, GPT, said={"prompt_cache_retention": "24h"})) is False


def test_an_upstream_that_refused_is_asked_nothing_for_a_while():
    questions = ProviderDiagnostics()
    call = questions.add_question(plan(0), NOW)

    assert questions.record_refusal(call, NOW)
    assert not questions.record_refusal(plan(0), NOW)
    assert questions.add_question(plan(0), NOW + RETRY_AFTER_S - 1.0).question is None
    assert questions.add_question(plan(0), NOW + RETRY_AFTER_S).question is not None


def test_the_conversations_that_are_remembered_are_bounded():
    questions = ProviderDiagnostics(most=2)
    for feature in ("a", "b", "c"):
        questions.record_answer(plan(0, feature=feature), "msg")

    assert len(questions) == 2
    assert previous(questions, plan(1, feature="a")) is None


@pytest.mark.parametrize(("before", "now"), [(False, True), (True, False), (False, False)])
def test_openai_is_asked_about_responses_that_are_stored_in_ones_that_are(before: bool, now: bool):  # noqa: FBT001
    questions = ProviderDiagnostics()
    questions.record_answer(plan(0, GPT, said={"store": before}), "resp_1")

    assert previous(questions, plan(1, GPT, said={"store": now})) is False


def test_anthropic_is_asked_whatever_is_stored():
    assert previous(ProviderDiagnostics(), plan(0, said={"store": False})) is None


@pytest.mark.parametrize(
    ("to", "said"),
    [
        (CLAUDE, {"diagnostics": {"previous_message_id": "msg_0"}}),
        (GPT, {"prompt_cache_options": {"comparison_response_id": "resp_0"}}),
    ],
)
def test_no_question_is_added_where_the_caller_asks(to: PlanningTarget, said: dict[str, object]):
    questions = ProviderDiagnostics()
    questions.record_answer(plan(0, to), "answer_1")
    call = plan(1, to, said=said)

    assert questions.add_question(call, NOW) is call


def test_a_caller_who_uses_the_field_otherwise_is_asked_for_all_the_same():
    questions = ProviderDiagnostics()
    questions.record_answer(plan(0, GPT), "resp_1")

    said = {"prompt_cache_options": {"mode": "implicit"}}
    assert previous(questions, plan(1, GPT, said=said)) == "resp_1"
