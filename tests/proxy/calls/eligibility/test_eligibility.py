"""Tests of which calls are planned."""

from dataclasses import replace

import orjson
import pytest

from proxy.calls.eligibility.eligibility import (
    MAX_PLANNED_BYTES,
    MIN_PLANNED_BYTES,
    NO_PROMPT,
    OTHER_WIRE,
    UNDER_2_KB,
    planning_request,
    skip_reason,
)
from proxy.prefix.planned import Passthrough
from tests.fakes.call_dependencies import KEY, call, route
from tests.proxy.prefix.planning_requests import body, chat_message

LONG = body(chat_message("user", "x" * MIN_PLANNED_BYTES))


def test_a_chat_call_that_a_cache_may_keep_is_planned():
    assert skip_reason(call(LONG)) is None


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (call(LONG, endpoint="embeddings"), NO_PROMPT),
        (call(LONG, method="GET"), NO_PROMPT),
        (call(b"{}"), UNDER_2_KB),
    ],
)
def test_a_call_that_no_cache_keeps_is_not_planned_and_its_receipt_says_why(other, reason):
    assert skip_reason(other) == Passthrough(reason=reason)


@pytest.mark.parametrize("kind", ["anthropic", "anthropic-bedrock", "anthropic-vertex"])
@pytest.mark.parametrize("endpoint", ["messages", "chat/completions"])
def test_calls_to_claude_are_planned_wherever_it_runs(kind, endpoint):
    assert skip_reason(call(LONG, endpoint=endpoint), route("up", kind=kind)) is None


def test_a_responses_call_that_is_translated_is_not_planned_and_its_receipt_says_why():
    claude = route("up", kind="anthropic")

    assert skip_reason(call(LONG, endpoint="responses"), claude) == Passthrough(reason=OTHER_WIRE)


def test_tags_are_taken_off_however_small_the_prompt_is():
    assert skip_reason(call(body(chat_message("user", "<tg:stable>x</tg:stable>")))) is None


HELLO = body(chat_message("user", "Hello!"))


@pytest.mark.parametrize("slots", ["0=fickle", "1=stable", ",".join(["0=fickle"] * 200)])
def test_wrong_slots_of_a_small_prompt_are_reported(slots):
    reason = skip_reason(call(HELLO, slots=slots))

    assert reason is not None
    assert f"slot '{slots.split(',')[0]}' is passed over" in reason.why
    assert "2 KB" not in reason.why
    assert len(reason.why) < 400


@pytest.mark.parametrize("beside", [True, False])
def test_slots_of_a_small_prompt_are_told_to_move_nothing(*, beside):
    slots = "0=stable"
    within = orjson.loads(HELLO) | {"metadata": {"thriftgate_slots": slots}}
    small = call(HELLO, slots=slots) if beside else call(orjson.dumps(within))
    reason = skip_reason(small)

    assert reason is not None
    assert "in a prompt under 2 KB" in reason.why


def test_slots_beside_what_is_no_prompt_are_reported():
    reason = skip_reason(call(b'{"model": "m"}', slots="0=stable"))

    assert reason is not None
    assert "not a chat body" in reason.why


def test_a_small_prompt_that_only_speaks_of_slots_has_none():
    assert skip_reason(
        call(body(chat_message("user", "What is thriftgate_slots?")))
    ) == Passthrough(reason=UNDER_2_KB)


@pytest.mark.parametrize(
    ("provider", "regime", "is_planned"),
    [
        ("mistral", "block-chain", True),
        ("fireworks", "implicit", True),
        ("xai", "block-chain", False),
        ("openai", "openai-interval", False),
    ],
)
def test_a_small_prompt_is_planned_where_only_calls_with_one_key_share_a_cache(
    provider, regime, is_planned
):
    there = replace(route("up").upstream, provider=provider)

    assert (
        skip_reason(call(HELLO), route("up", upstream=there, regime=regime)) is None
    ) == is_planned


def test_a_body_too_large_to_plan_goes_unmodified_and_says_so():
    reason = skip_reason(call(body(chat_message("user", "x" * MAX_PLANNED_BYTES))))

    assert reason is not None
    assert "too large" in reason.why


def test_planning_knows_who_asks_and_in_which_conversation():
    request = planning_request(call(LONG, conversation="mine"))

    assert (request.team, request.key, request.feature, request.hint) == (
        KEY.team,
        KEY.id,
        "chat",
        "mine",
    )
    assert request.body == LONG
    assert not request.shows


SAID = orjson.dumps({"model": "any", "input": "x" * MIN_PLANNED_BYTES})


@pytest.mark.parametrize(
    ("to", "is_planned"),
    [
        (route("openai"), True),
        (route("claude", kind="anthropic"), False),
        (route("router", regime="anthropic-breakpoint"), False),
        (route("chat", upstream=replace(route("chat").upstream, serves_responses=False)), False),
    ],
)
def test_a_responses_call_is_planned_where_it_goes_in_its_own_words(to, is_planned):
    assert (skip_reason(call(SAID, endpoint="responses"), to) is None) == is_planned
    assert skip_reason(call(LONG), to) is None


def test_a_call_of_anthropics_api_is_planned_where_its_upstream_speaks_it():
    request = call(LONG, endpoint="messages")

    assert skip_reason(request, route("up", kind="anthropic")) is None
    assert skip_reason(request, route("up")) == Passthrough(reason=OTHER_WIRE)
    assert planning_request(request).is_native
