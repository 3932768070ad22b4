"""Providers' own reasons of misses, in a running gateway; and Responses calls."""

from typing import Any

import orjson

from proxy.prefix.explain.reasons import MissReason, ProviderReason
from proxy.prefix.planned import Passthrough, Planned
from proxy.records.call import Call
from proxy.services.planning.planning import PromptPlanning
from slo.usage import Usage
from tests.fakes.call_dependencies import call, route
from tests.proxy.prefix.planning_requests import RULES, chat_message
from tests.proxy.services.planning.planning_fixtures import (
    as_planned,
    chat,
    run,
    running_planning,
)

ANSWERED = Usage(input=9_000)
CLAUDE = route("claude", kind="anthropic", regime="anthropic-breakpoint")
OPENAI = route("openai", regime="openai-breakpoint")


async def plan_turn(planning: PromptPlanning, turns: int) -> Planned:
    planned = await planning.plan(chat(turns), CLAUDE)
    await planning.wait_until_stored(planned)
    return as_planned(planned)


def test_a_providers_diagnosis_is_joined_to_a_miss(store):
    with running_planning(store) as planning:
        planned = run(plan_turn(planning, 0))
        reason = ProviderReason(MissReason.PARAMETER_CHANGED, "the model changed")
        miss = planning.settle(planned, ANSWERED, reason)

    assert miss is not None
    assert miss.reason is MissReason.PARAMETER_CHANGED
    assert miss.detail.startswith("the provider says the model changed")


SAID = ProviderReason(MissReason.PARAMETER_CHANGED, "the model changed", 8_000)


def test_a_providers_diagnosis_does_not_wait_for_a_prompt_being_planned(store):
    with running_planning(store) as planning:
        planned = run(plan_turn(planning, 0))
        with planning._lock:
            miss = planning.settle(planned, ANSWERED, SAID)

    assert miss is not None
    assert miss.reason is MissReason.PARAMETER_CHANGED
    assert miss.tokens == 8_000


def test_a_providers_diagnosis_of_a_long_call_is_reported(store):
    with running_planning(store) as planning:
        planned = run(plan_turn(planning, 512 // 2))
        miss = planning.settle(planned, ANSWERED, SAID)

    assert len(planned.evidence.sent.blocks) > 512
    assert miss is not None
    assert miss.detail.startswith("the provider says the model changed; by our account nothing")
    assert miss.tokens == 8_000


def respond(*, stored: bool, **fields: Any) -> Call:
    sent = {"model": "any", "instructions": RULES, "input": [chat_message("user", "Hm?")], **fields}
    return call(orjson.dumps({**sent, "store": stored}), endpoint="responses")


def test_a_response_that_goes_on_from_another_goes_unmodified_and_says_why(store):
    with running_planning(store) as planning:
        planned = run(planning.plan(respond(stored=True, previous_response_id="resp_1"), OPENAI))

    assert planned == Passthrough("it goes on from what its provider keeps")
