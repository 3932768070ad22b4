"""Tests of the steps of an attempt before it is sent."""

import json
from dataclasses import replace

import pytest

from proxy.calls.attempts.attempt import AnswerBeginning, Attempt, AttemptOptions
from proxy.calls.attempts.steps import SentAttempt
from proxy.calls.pipeline import begin
from proxy.calls.ports import Admitted, CheaperRoute
from proxy.calls.route_choice import RouteChoice
from proxy.errors import CallerError
from proxy.providers.port import PreparedRequest
from tests.fakes.answers import STREAM, STREAMED, stream
from tests.fakes.call_dependencies import call
from tests.fakes.upstream import (
    FakeTransport,
)
from tests.proxy.calls.attempts.attempt_steps import ONE, Admits, open_attempt, planning_events, run


def refuse_over_budget(_: PreparedRequest) -> Admitted:
    raise CallerError("It does not fit.", code="budget_exceeded")


def test_a_refused_attempt_was_never_sent():
    async def expect_refusal(attempt: Attempt, transport: FakeTransport) -> Attempt:
        with pytest.raises(CallerError) as caught:
            await begin(attempt)
        attempt.close(caught.value)
        assert transport.sent == []
        return attempt

    attempt = open_attempt(then=expect_refusal, limits=Admits(refuse_over_budget))
    assert not isinstance(attempt.step, SentAttempt)


def test_an_attempt_over_its_ceiling_names_the_model_that_fits():
    limits = Admits(lambda _: CheaperRoute("small", "cheaper"))
    _, cheaper = open_attempt(then=run, limits=limits)

    assert cheaper == CheaperRoute("small", "cheaper")
    assert limits.fits == [True, False]


def test_a_rerouted_attempt_fits_no_other_model():
    limits = Admits(lambda _: CheaperRoute("small", "cheaper"))
    open_attempt(then=run, limits=limits, options=AttemptOptions(may_switch_model=False))

    assert limits.fits == [False, False]


def test_the_caller_is_notified_of_its_limits_and_where_it_went():
    limits = Admits(lambda prepared: Admitted(prepared, {"x-left": "1"}, ("a note",)))
    choice = RouteChoice(ONE, "m", "chat: level 1")
    attempt, _ = open_attempt(stream(STREAM), then=run, limits=limits, choice=choice)

    assert attempt.info.headers == {"x-left": "1", "x-thriftgate-fallback": "chat: level 1"}
    assert attempt.info.notes[-1] == "a note"
    assert attempt.info.reroute_reason == "chat: level 1"


def test_an_unmodified_attempt_is_not_planned_and_still_ended():
    attempt, _ = open_attempt(stream(STREAM), then=run, options=AttemptOptions(is_resent=True))

    assert planning_events(attempt.context.deps) == ["begun", "ended"]
    assert attempt.info.notes == ("the planned prompt was refused, so it was sent unmodified",)
    assert attempt.step.changed_plan is None


def continue_answer(
    body: bytes, endpoint: str = "chat/completions"
) -> tuple[Attempt, PreparedRequest]:
    """An attempt that goes on from the beginning of an answer, and its request."""
    upstream = replace(ONE.upstream, continues="continue_final_message")
    choice = RouteChoice(replace(ONE, upstream=upstream), "m")
    attempt, _ = open_attempt(
        stream(STREAM),
        then=run,
        choice=choice,
        sent_call=call(body, endpoint),
        options=AttemptOptions(
            beginning=AnswerBeginning("Forty letters of an answer that broke off ", "a note")
        ),
    )
    assert isinstance(attempt.step, SentAttempt)
    return attempt, attempt.step.request


def test_an_attempt_that_goes_on_has_what_is_left_of_the_output_limit():
    _, request = continue_answer(STREAMED[:-1] + b',"max_tokens":50}')
    body = json.loads(request.body)

    assert body["max_tokens"] == 50 - 10  # four letters are about a token
    assert body["messages"][-1]["content"] == "Forty letters of an answer that broke off"
    assert "max_tokens" not in json.loads(continue_answer(STREAMED)[1].body)
    assert (
        json.loads(continue_answer(STREAMED[:-1] + b',"max_tokens":5}')[1].body)["max_tokens"] == 1
    )


def test_an_attempt_that_goes_on_is_counted_with_the_beginning_of_its_answer():
    attempt, request = continue_answer(STREAMED)
    counted = json.loads(attempt.info.sent_call.body)["messages"]

    assert counted == json.loads(request.body)["messages"]
    assert attempt.info.notes[0] == "a note"


def test_a_responses_call_goes_on_in_chat_whatever_its_upstream_has():
    _, request = continue_answer(b'{"model":"m","stream":true,"input":"Hello"}', "responses")
    body = json.loads(request.body)

    assert request.path == "/chat/completions"
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    assert body["continue_final_message"] is True


def test_an_attempt_does_not_go_on_where_its_route_would_begin_anew():
    options = AttemptOptions(beginning=AnswerBeginning("So far", ""))
    limits = Admits(Admitted)

    async def expect_refusal(attempt: Attempt, transport: FakeTransport) -> Attempt:
        with pytest.raises(CallerError) as caught:
            await begin(attempt)
        attempt.close(caught.value)
        assert caught.value.code == "not_continuable"
        assert transport.sent == []
        return attempt

    open_attempt(then=expect_refusal, limits=limits, options=options)
