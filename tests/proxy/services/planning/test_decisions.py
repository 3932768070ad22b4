"""Tests of decisions on how a call is sent, and of what they need of the store."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from proxy.calls.eligibility.eligibility import planning_request
from proxy.calls.eligibility.route_target import route_target
from proxy.prefix.planner import Planner
from proxy.records.call import Call
from proxy.records.feature_mode import LayoutScope
from proxy.services.planning.decisions import PlanningDecisions, PlanningRules, PlanningStep
from proxy.services.planning.known_layouts import KnownLayouts, StoreReads
from tests.fakes.call_dependencies import call
from tests.proxy.prefix.planning_requests import NOW, RULES, SECRET, body, chat_message
from tests.proxy.services.planning.planning_fixtures import (
    LARGE,
    PLACE,
    ROUTE,
    chat,
    plan_and_store,
    running_planning,
)


class RecordedLayouts(KnownLayouts):
    """Records the versions that are looked up."""

    def __init__(self, store: Any) -> None:
        super().__init__(store, StoreReads(store, lambda: NOW))
        self.versions: list[int] = []

    def layout(self, where: LayoutScope, version: int) -> Any:
        self.versions.append(version)
        return super().layout(where, version)


@pytest.fixture
def layouts(store):
    return RecordedLayouts(store)


@pytest.fixture
def decisions(layouts):
    return PlanningDecisions(Planner(SECRET, share=0.0), layouts, lambda: NOW)


def rules(version: int = 0) -> PlanningRules:
    return PlanningRules(route_target(ROUTE, "any", NOW, "chat/completions"), PLACE, version)


def read(decisions: PlanningDecisions, request: Call, version: int = 0) -> PlanningStep:
    return decisions.read_and_decide(planning_request(request), rules(version))


def respond(*, stored: bool) -> Call:
    fields = {"model": "any", "instructions": RULES, "input": [chat_message("user", "Hm?")]}
    return call(orjson.dumps({**fields, "store": stored}), endpoint="responses")


def test_a_new_conversation_is_decided_without_the_store(decisions):
    step = read(decisions, chat())

    assert step.planned is not None
    assert (step.missing_plans, step.missing_layout) == ((), 0)


def test_an_unknown_conversation_under_way_needs_stored_plans_first(decisions):
    step = read(decisions, chat(1))
    recalled = decisions.recall_and_decide(step.draft, rules(), {})

    assert step.planned is None
    assert step.draft.conversation.hex() in step.missing_plans
    assert recalled.planned is not None


def test_a_layout_that_is_not_at_hand_is_missing_until_it_was_fetched(decisions, layouts):
    step = read(decisions, chat(), version=7)
    assert (step.planned, step.missing_layout) == (None, 7)

    asyncio.run(layouts.fetch(PLACE, 7))
    assert decisions.decide_next(step.draft, rules(7)).planned is not None


def test_a_layout_that_could_not_be_fetched_does_not_stop_a_call(decisions):
    step = read(decisions, chat(), version=7)

    assert decisions.decide_next(step.draft, rules(7), is_fetched=True).planned is not None


def test_no_layout_is_looked_up_where_a_provider_keeps_what_it_is_sent(decisions, layouts):
    read(decisions, respond(stored=True))
    assert layouts.versions == []

    read(decisions, respond(stored=False))
    assert layouts.versions == [0]


def large(turns: int) -> Call:
    messages = [chat_message("system", LARGE), chat_message("user", "Well?")]
    for turn in range(turns):
        messages += [chat_message("assistant", f"{turn}."), chat_message("user", "On.")]
    return call(body(*messages))


class CountingThread(ThreadPoolExecutor):
    """The planner's thread; it counts what is brought to it."""

    job_count = 0

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        self.job_count += 1
        return super().submit(*args, **kwargs)


def test_a_long_prompt_goes_to_the_thread_once_and_once_more_behind_the_store(store):
    with running_planning(store) as first, running_planning(store) as second:
        first._thread, second._thread = CountingThread(1), CountingThread(1)
        asyncio.run(plan_and_store(first, large(0)))
        asyncio.run(plan_and_store(second, large(1)))

    assert (first._thread.job_count, second._thread.job_count) == (1, 2)
