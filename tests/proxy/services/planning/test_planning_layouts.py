"""Tests of which layout a conversation begins with, and keeps."""

from functools import cache

import msgspec
import orjson
import pytest

from proxy.calls.eligibility import eligibility
from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.planned import Passthrough, Planned
from proxy.records.call import Call
from proxy.records.feature_mode import FeatureState, FeatureStates, PlanningMode
from proxy.records.mark_account import MAX_TEAM_LOSS
from proxy.store.store import Store
from tests.fakes.call_dependencies import call
from tests.fakes.clock import ManualClock, run_in_instant_time
from tests.proxy.prefix.planning_requests import (
    NOW,
    RULES,
    TARGETS,
    body,
    conversation_messages,
    learned_layout,
)
from tests.proxy.services.planning.planning_fixtures import (
    ABOVE,
    PLACE,
    ROUTE,
    SlowStore,
    UnreachableStore,
    as_planned,
    open_store,
    plan_and_store,
    run,
    running_planning,
)


def opening(planned: Planned | Passthrough) -> str:
    content = orjson.loads(as_planned(planned).body)["messages"][0]["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


@cache
def layout(words: str = ABOVE) -> Layout:
    layout_learned = learned_layout(
        TARGETS["openai-interval"],
        (body(*conversation_messages(0, words.format(n) + RULES, f"I am {n}.")) for n in range(30)),
        feature="chat",
    )
    assert layout_learned is not None
    return layout_learned


def approve(store: Store, layout: Layout, digest: str) -> int:
    proposal = store.layouts.propose(PLACE, digest, msgspec.json.encode(layout).decode(), NOW)
    assert proposal is not None
    store.layouts.approve(PLACE, proposal.version, "ann", NOW)
    store.board.refresh()
    return proposal.version


def numbered_call(turns: int = 0, opening: str = "Well?") -> Call:
    return call(body(*conversation_messages(turns, ABOVE.format(turns) + RULES, opening)))


def test_conversations_begin_without_a_layout_while_the_teams_dollar_is_lost(store):
    clock = ManualClock(NOW)
    with running_planning(store, now=clock) as planning:
        approve(store, layout(), "one")
        clock.now += 60
        before = run(plan_and_store(planning, numbered_call()))
        planning._planner.memory.stake_of(PLACE.team).record(MAX_TEAM_LOSS, clock())
        after = run(plan_and_store(planning, numbered_call(opening="And?")))

    assert (as_planned(before).plan.layout, as_planned(after).plan.layout) == (1, 0)


def test_a_layout_holds_for_conversations_that_begin_once_it_holds(store):
    clock = ManualClock(NOW)
    with running_planning(store, now=clock) as planning:
        approve(store, layout(), "d1")
        before = run(plan_and_store(planning, numbered_call()))
        clock.now += 60
        goes_on = run(plan_and_store(planning, numbered_call(1)))
        after = run(plan_and_store(planning, numbered_call(opening="And this?")))

    assert [planned.plan.layout for planned in (before, goes_on, after)] == [0, 0, 1]
    assert [opening(planned).startswith("Call number") for planned in (before, goes_on, after)] == [
        True,
        True,
        False,
    ]


def test_a_conversation_keeps_a_layout_that_holds_no_more(store):
    """Also in a process that has never known it."""
    clock = ManualClock(NOW)
    clock.now = NOW + 60
    with running_planning(store, now=clock) as first, running_planning(store, now=clock) as second:
        approve(store, layout(), "d1")
        run(plan_and_store(first, numbered_call()))
        for digest in ("d2", "d3"):
            approve(store, Layout(), digest)
        planned_calls = [
            run(plan_and_store(planning, numbered_call(1))) for planning in (first, second)
        ]

    assert (PLACE, 1) not in store.board.current.moves
    for planned in planned_calls:
        assert planned.plan.layout == 1
        assert not opening(planned).startswith("Call number")


@pytest.mark.parametrize(("pause", "version"), [(20.0, 1), (86_400.0, 0)])
def test_conversation_leaves_a_layout_that_was_rolled_back_once_it_is_cold(store, pause, version):
    clock = ManualClock(NOW + 60)
    with running_planning(store, now=clock) as planning:
        approve(store, layout(), "d1")
        calls = [
            call(body(*conversation_messages(index, ABOVE.format(0) + RULES))) for index in range(3)
        ]
        for request in calls[:2]:
            begun = run(plan_and_store(planning, request))
            planning._planner.settle_call(as_planned(begun), None)
        store.layouts.step_back(PLACE, 1, clock.now)
        store.board.refresh()
        clock.now += pause
        goes_on = run(plan_and_store(planning, calls[2]))

    assert (begun.plan.layout, goes_on.plan.layout) == (1, version)
    assert opening(goes_on).startswith("Call number") is (not version)


def test_a_layout_that_nobody_has_any_more_moves_nothing(store):
    with running_planning(store) as planning:
        draft = planning._planner.read_call(eligibility.planning_request(numbered_call()))
        planning._planner.adopt_plan(draft, Plan(layout=9))
        planned = run(plan_and_store(planning, numbered_call()))

    assert opening(planned).startswith("Call number")


@pytest.mark.parametrize("kind", [UnreachableStore, SlowStore])
def test_a_layout_the_store_says_nothing_of_moves_nothing(tmp_path, kind, caplog):
    store = open_store(tmp_path, kind)
    with running_planning(store) as planning:
        draft = planning._planner.read_call(eligibility.planning_request(numbered_call()))
        planning._planner.adopt_plan(draft, Plan(layout=9))
        state = FeatureState(mode=PlanningMode.APPLY, version=9)
        store.board.current = FeatureStates(places={PLACE: state})
        planned = run_in_instant_time(planning.plan(numbered_call(), ROUTE))
    store.close(5)

    assert opening(planned).startswith("Call number")
    assert "A layout could not be read" in caplog.text


def test_a_layout_that_cannot_be_read_moves_nothing(store):
    store.layouts.propose(PLACE, "d", '{"moves":7}', NOW - 60)
    store.layouts.approve(PLACE, 1, "ann", NOW - 60)
    store.board.refresh()
    with running_planning(store) as planning:
        planned = run(plan_and_store(planning, numbered_call()))

    assert planned.plan.layout == 1
    assert opening(planned).startswith("Call number")


def test_a_conversation_that_begins_again_begins_with_the_newest_layout(store):
    clock = ManualClock(NOW)
    with running_planning(store, now=clock) as planning:
        before = run(plan_and_store(planning, numbered_call()))
        version = approve(store, layout(), "newer")
        clock.now += 60
        again = run(plan_and_store(planning, numbered_call()))
        goes_on = run(plan_and_store(planning, numbered_call(1)))

    assert (before.plan.layout, again.plan.layout) == (0, version)
    assert again.plan.replaced == 1
    assert goes_on.plan.layout == version
    stored = store.plans.find(again.draft.conversation.hex(), NOW)
    assert stored is not None
    assert stored.layout == version
