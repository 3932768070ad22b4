"""Tests of what answered calls teach, beside the calls and at nobody's cost."""

import logging
import threading
from typing import Any

import msgspec
import pytest

from proxy.prefix.explain.reasons import CacheMiss
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.planner import Planner
from proxy.records.feature_mode import LayoutScope
from proxy.services.planning.planning import PromptPlanning
from proxy.store.errors import StoreError
from slo.usage import Usage
from tests.fakes.call_dependencies import call
from tests.fakes.clock import ManualClock
from tests.proxy.prefix.planning_requests import (
    NOW,
    RULES,
    SECRET,
    body,
    chat_message,
    conversation_messages,
)
from tests.proxy.services.planning.planning_fixtures import (
    ABOVE,
    PLACE,
    ROUTE,
    as_planned,
    chat,
    plan_and_store,
    run,
    running_planning,
)


def lessons_are_learned(planning: PromptPlanning) -> None:
    over = threading.Event()
    planning._learner.submit(over.set)
    assert over.wait(10)


def test_a_very_long_conversation_is_told_what_it_missed_and_learned_from_in_a_thread(store):
    messages = [chat_message("user", f"{number} {RULES[:40]}") for number in range(512 + 1)]
    with running_planning(store) as planning:
        planned = as_planned(run(planning.plan(call(body(*messages)), ROUTE)))

        planning.settle(planned, Usage(input=20_000))
        lessons_are_learned(planning)
        edited = [chat_message("user", "Otherwise."), *messages[1:]]
        again = as_planned(run(planning.plan(call(body(*edited)), ROUTE)))
        miss = planning.settle(again, Usage(input=20_000))

    assert again.evidence.before is not None
    assert miss is not None


@pytest.mark.parametrize(("messages", "settled"), [(512, 1), (513, 0)])
def test_a_call_of_up_to_512_blocks_is_learned_from_at_once(store, messages, settled):
    calls = []

    class Recording(Planner):
        def settle_call(self, *args: Any, **kwargs: Any) -> CacheMiss | None:
            calls.append(args)
            return super().settle_call(*args, **kwargs)

    talk = [chat_message("user", f"{number} {RULES[:40]}") for number in range(messages)]
    with running_planning(store, Recording(SECRET, share=0.0)) as planning:
        planning.settle(as_planned(run(planning.plan(call(body(*talk)), ROUTE))), Usage(input=9))

    assert len(calls) == settled


def test_learning_from_a_call_does_not_look_up_its_miss_again(store):
    class Once(Planner):
        def settle_call(self, *args: Any, **kwargs: Any) -> CacheMiss | None:
            raise AssertionError

    with running_planning(store, Once(SECRET, share=0.0)) as planning:
        planned = run(plan_and_store(planning, chat()))
        with planning._lock:
            miss = planning.settle(planned, Usage(input=3_000))
        lessons_are_learned(planning)
        again = run(plan_and_store(planning, chat()))

    assert miss is not None
    assert again.evidence.before is not None


def teach(planning: PromptPlanning, calls: int = 30) -> None:
    """Answer as many calls, each of which says its number above the rules."""

    async def work() -> None:
        for number in range(calls):
            raw = body(*conversation_messages(0, ABOVE.format(number) + RULES, f"I am {number}."))
            planned = await plan_and_store(planning, call(raw))
            planning.settle(planned, Usage(input=3_000))

    run(work())
    lessons_are_learned(planning)


def test_a_layout_learned_from_calls_is_proposed(store):
    with running_planning(store) as planning:
        teach(planning)
    (proposal,) = store.layouts.proposals(PLACE)

    assert (proposal.version, proposal.state.value) == (1, "proposed")
    assert '"label":"Detail"' in proposal.moves


def test_layouts_of_a_busy_feature_are_proposed_two_seconds_apart(store):
    clock = ManualClock(NOW)

    def withdraw_then_teach(planning: PromptPlanning, seconds: float) -> list[str]:
        store.layouts.withdraw(PLACE, 10_000, clock())
        clock.now += seconds
        teach(planning, 25)
        return [proposal.state.value for proposal in store.layouts.proposals(PLACE)]

    with running_planning(store, now=clock) as planning:
        teach(planning, 75)
        within_two_seconds = withdraw_then_teach(planning, 1.0)
        later = withdraw_then_teach(planning, 10.0)

    assert (within_two_seconds, later) == (["withdrawn"], ["proposed"])


def test_the_same_evidence_gives_the_same_proposal(store):
    with running_planning(store) as planning:
        teach(planning, 80)

    assert len(store.layouts.proposals(PLACE)) == 1


def test_proposal_that_calls_no_longer_speak_for_is_withdrawn(store):
    moves = msgspec.json.encode(Layout(moves=())).decode()
    store.layouts.propose(PLACE, "earlier", moves, 0.0)

    with running_planning(store) as planning:
        teach(planning)

    states = {proposal.digest: proposal.state.value for proposal in store.layouts.proposals(PLACE)}
    assert states.pop("earlier") == "withdrawn"
    assert list(states.values()) == ["proposed"]


def test_calls_that_show_nothing_propose_nothing(store):
    with running_planning(store) as planning:
        planned = run(plan_and_store(planning, chat()))
        for _ in range(30):
            planning.settle(planned, None)
        lessons_are_learned(planning)

    assert store.layouts.proposals(PLACE) == []


def test_a_lesson_the_store_does_not_take_is_reported(store, caplog):
    def propose(*args: object) -> None:
        raise StoreError("away")

    store.layouts.propose = propose
    with running_planning(store) as planning:
        teach(planning)

    levels = {r.levelno for r in caplog.records if "could not be learned from" in r.message}
    assert levels == {logging.WARNING}


def test_a_lesson_that_fails_harms_no_other(store, caplog):
    with running_planning(store) as planning:
        planned = run(plan_and_store(planning, chat()))
        lessons, planning._lessons = planning._lessons, None  # type: ignore[assignment]
        planning.settle(planned, None)
        lessons_are_learned(planning)
        planning._lessons = lessons
        planning.settle(planned, None)
        lessons_are_learned(planning)

    assert [record.message for record in caplog.records] == ["A call could not be learned from"]
    assert len(lessons) == 1


@pytest.mark.parametrize(("others", "counted"), [(1_023, 1_024), (1_024, 0)])
def test_calls_of_1024_features_are_counted(store, others, counted):
    with running_planning(store) as planning:
        planning._calls.update(LayoutScope("t", str(n)) for n in range(others))
        planned = run(plan_and_store(planning, chat()))
        planning.settle(planned, None)
        lessons_are_learned(planning)

    assert len(planning._calls) == counted


def test_a_call_that_is_answered_while_the_gateway_stops_teaches_nothing(store, caplog):
    with running_planning(store) as planning:
        planned = run(plan_and_store(planning, chat()))
        planning.close()
        planning.settle(planned, None)

    assert len(planning._lessons) == 0
    assert caplog.records == []
