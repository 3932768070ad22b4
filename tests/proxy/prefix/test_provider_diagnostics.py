"""Asking a provider about the answer before: whose, when, and when not."""

from typing import Any

import msgspec
import pytest

from proxy.prefix.planned import Planned, PlanningTarget
from proxy.prefix.provider_diagnostics import RETRY_AFTER_S, ProviderDiagnostics
from tests.proxy.prefix.askings import NOW, WAYS, Process, asked, body, talk

CLAUDE = msgspec.structs.replace(WAYS["anthropic-breakpoint"], asks="messages")
GPT = msgspec.structs.replace(WAYS["openai-breakpoint"], asks="responses")


#: What the processes of a test share.
PLANS: dict[str, bytes] = {}


@pytest.fixture(autouse=True)
def nothing_is_decided() -> None:
    PLANS.clear()


def planned(
    turns: int = 0, to: PlanningTarget = CLAUDE, share: float = 0.0, **fields: Any
) -> Planned:
    call = asked(body(*talk(turns), **fields.pop("said", {})), **fields)
    return Process(to, plans=PLANS, share=share).planned(call)


def previous(questions: ProviderDiagnostics, call: Planned) -> object:
    """The answer that the call asks about; False where it asks nothing."""
    question = questions.add_question(call, NOW).question
    if question is None:
        return False
    return next(iter(msgspec.json.decode(question.value).values()))


def test_a_later_call_asks_about_the_answer_before_it():
    questions = ProviderDiagnostics()
    questions.record_answer(planned(0), "msg_1")
    questions.record_answer(planned(1), "msg_2")

    assert previous(questions, planned(2)) == "msg_2"


def test_a_first_call_asks_anthropic_about_nothing_so_that_the_next_one_can_ask():
    assert previous(ProviderDiagnostics(), planned(0)) is None


def test_a_first_call_asks_openai_nothing():
    questions = ProviderDiagnostics()
    assert previous(questions, planned(0, GPT)) is False

    questions.record_answer(planned(0, GPT), "resp_1")
    assert previous(questions, planned(1, GPT)) == "resp_1"


def test_a_conversation_that_begins_again_asks_about_no_answer():
    questions = ProviderDiagnostics()
    questions.record_answer(planned(2), "msg_1")

    assert previous(questions, planned(0)) is None
    assert previous(questions, planned(2)) is None


@pytest.mark.parametrize(
    "other",
    [
        {"team": "team_2"},
        {"key": "key_2"},
        {"feature": "other"},
        {"to": msgspec.structs.replace(CLAUDE, upstream="elsewhere")},
    ],
)
def test_nobody_elses_answer_is_named(other):
    questions = ProviderDiagnostics()
    questions.record_answer(planned(0), "msg_1")

    assert previous(questions, planned(1)) == "msg_1"
    assert previous(questions, planned(1, **other)) is None


def test_an_answer_without_a_name_is_not_remembered():
    questions = ProviderDiagnostics()
    questions.record_answer(planned(0), "")

    assert len(questions) == 0


def test_a_call_that_ended_in_what_varies_is_not_compared_with():
    questions = ProviderDiagnostics()
    call = planned(0)
    prompt = msgspec.structs.replace(call.prompt, tail=1)
    questions.record_answer(msgspec.structs.replace(call, prompt=prompt), "msg_1")

    assert previous(questions, planned(1)) is None


def test_a_route_that_cannot_be_asked_is_not():
    deaf = msgspec.structs.replace(CLAUDE, asks="")
    questions = ProviderDiagnostics()
    questions.record_answer(planned(0, deaf), "msg_1")

    assert previous(questions, planned(1, deaf)) is False
    assert len(questions) == 0


def test_the_control_arm_asks_nothing():
    assert previous(ProviderDiagnostics(), planned(0, share=1.0)) is False


def test_openai_is_not_asked_beside_a_retention_for_it_refuses_both():
    questions = ProviderDiagnostics()
    questions.record_answer(planned(0, GPT), "resp_1")

    assert previous(questions, planned(1, GPT, said={"prompt_cache_retention": "24h"})) is False


def test_an_upstream_that_refused_is_asked_nothing_for_a_while():
    questions = ProviderDiagnostics()
    call = questions.add_question(planned(0), NOW)

    assert questions.record_refusal(call, NOW)
    assert not questions.record_refusal(planned(0), NOW)
    assert questions.add_question(planned(0), NOW + RETRY_AFTER_S - 1.0).question is None
    assert questions.add_question(planned(0), NOW + RETRY_AFTER_S).question is not None


def test_the_conversations_that_are_remembered_are_bounded():
    questions = ProviderDiagnostics(most=2)
    for feature in ("a", "b", "c"):
        questions.record_answer(planned(0, feature=feature), "msg")

    assert len(questions) == 2
    assert previous(questions, planned(1, feature="a")) is None


@pytest.mark.parametrize(("before", "now"), [(False, True), (True, False), (False, False)])
def test_openai_is_asked_about_responses_that_are_stored_in_ones_that_are(before: bool, now: bool):  # noqa: FBT001
    questions = ProviderDiagnostics()
    questions.record_answer(planned(0, GPT, said={"store": before}), "resp_1")

    assert previous(questions, planned(1, GPT, said={"store": now})) is False


def test_anthropic_is_asked_whatever_is_stored():
    assert previous(ProviderDiagnostics(), planned(0, said={"store": False})) is None


@pytest.mark.parametrize(
    ("to", "said"),
    [
        (CLAUDE, {"diagnostics": {"previous_message_id": "msg_0"}}),
        (GPT, {"prompt_cache_options": {"comparison_response_id": "resp_0"}}),
    ],
)
def test_a_caller_who_asks_is_not_asked_for(to: PlanningTarget, said: dict[str, object]):
    questions = ProviderDiagnostics()
    questions.record_answer(planned(0, to), "answer_1")
    call = planned(1, to, said=said)

    assert questions.add_question(call, NOW) is call


def test_a_caller_who_says_something_else_there_is():
    questions = ProviderDiagnostics()
    questions.record_answer(planned(0, GPT), "resp_1")

    said = {"prompt_cache_options": {"mode": "implicit"}}
    assert previous(questions, planned(1, GPT, said=said)) == "resp_1"
