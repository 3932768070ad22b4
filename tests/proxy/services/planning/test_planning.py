"""Planning around a real store: what is planned, and that nothing costs a call."""

import asyncio
import logging
import threading
from typing import Any

import orjson
import pytest

from proxy.calls.eligibility import eligibility
from proxy.prefix.explain.reasons import MissReason
from proxy.prefix.planned import Draft, Passthrough, Planned, PlanningRequest
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.objects import Unplannable
from proxy.records.body_reader import BodyReader
from proxy.records.call import Call
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.services.planning.planning import PromptPlanning
from proxy.store.store import Store
from slo.usage import Usage
from tests.fakes.call_dependencies import call
from tests.fakes.clock import ManualClock, run_in_instant_time, ticks
from tests.proxy.prefix.planning_requests import (
    NOW,
    SECRET,
    body,
    chat_message,
    conversation_messages,
)
from tests.proxy.services.planning.planning_fixtures import (
    LARGE,
    PLACE,
    ROUTE,
    as_planned,
    chat,
    open_store,
    plan_and_store,
    run,
    running_planning,
)

LATER_MESSAGES = [
    chat_message(role, f"{number}. {'Go on. ' * 40}")
    for number, role in enumerate(["user", "assistant", "user"])
]


@pytest.mark.parametrize(
    "rejected",
    [
        call(body(chat_message("user", "hi"))),
        call(body(*conversation_messages(0)), endpoint="embeddings"),
        call(body(*conversation_messages(0)), endpoint="completions"),
        call(body(*conversation_messages(0)), method="GET"),
    ],
)
def test_a_prompt_that_no_cache_would_keep_is_not_planned(store, rejected):
    with running_planning(store) as planning:
        planned = run(planning.plan(rejected, ROUTE))

    assert isinstance(planned, Passthrough)
    assert planned.why == ""
    assert planned.reason in {eligibility.NO_PROMPT, eligibility.UNDER_2_KB}


def test_tags_are_taken_off_however_small_a_prompt_is(store):
    planning_request = call(
        body(
            chat_message("system", "<tg:variable>It is noon.</tg:variable>"),
            chat_message("user", "?"),
        )
    )
    with running_planning(store) as planning:
        planned = as_planned(run(planning.plan(planning_request, ROUTE)))

    assert b"<tg:" not in planned.body


def test_a_huge_prompt_goes_unmodified(store):
    planning_request = call(body(chat_message("user", "x" * 2 * 1_024 * 1_024)))
    with running_planning(store) as planning:
        assert run(planning.plan(planning_request, ROUTE)) == Passthrough(
            "the prompt is too large to plan"
        )


def test_a_feature_for_which_planning_is_off_goes_unmodified(tmp_path):
    store = open_store(tmp_path, Store, PlanningMode.OFF)
    with running_planning(store) as planning:
        assert run(planning.plan(chat(), ROUTE)) == Passthrough(reason="off")
    store.close(5)


def test_a_feature_that_is_suspended_goes_unmodified_and_says_so(store):
    store.layouts.suspend(PLACE.all_families, "it cost more", NOW)
    store.board.refresh()
    with running_planning(store) as planning:
        assert run(planning.plan(chat(), ROUTE)) == Passthrough("planning is suspended")


def test_a_prompt_that_cannot_be_planned_goes_unmodified_with_the_reason(store):
    planning_request = call(orjson.dumps({"model": "m", "messages": "x" * 4_096}))
    with running_planning(store) as planning:
        planned = run(planning.plan(planning_request, ROUTE))

    assert isinstance(planned, Passthrough)
    assert planned.why.startswith("not a chat body")


def test_the_reason_why_a_prompt_cannot_be_planned_has_200_characters_at_most(store):
    class Wordy(Planner):
        def read_call(self, request: PlanningRequest) -> Draft:
            raise Unplannable("x" * 300)

    with running_planning(store, Wordy(SECRET)) as planning:
        assert run(planning.plan(chat(), ROUTE)) == Passthrough("x" * 200)


def test_a_planner_that_fails_costs_no_call(store, caplog):
    class Broken(Planner):
        def read_call(self, request: PlanningRequest) -> Draft:
            raise ZeroDivisionError

    with running_planning(store, Broken(SECRET)) as planning:
        assert run(planning.plan(chat(), ROUTE)) == Passthrough("planning failed")
        assert not planning._lock.locked()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_planner_that_hangs_is_not_waited_for(store, caplog):
    over = threading.Event()

    class Hangs(Planner):
        def read_call(self, request: PlanningRequest) -> Draft:
            over.wait(60)
            return super().read_call(request)

    async def plan_and_measure(planning: PromptPlanning) -> tuple[Planned | Passthrough, float]:
        began = ticks()
        return await planning.plan(call(body(chat_message("user", LARGE))), ROUTE), ticks() - began

    with running_planning(store, Hangs(SECRET)) as planning:
        planned, waited_s = run_in_instant_time(plan_and_measure(planning))
        while_it_hangs = run_in_instant_time(planning.plan(chat(), ROUTE))
        over.set()

    assert planned == while_it_hangs == Passthrough("planning took too long")
    assert waited_s == pytest.approx(2.0)
    assert len(caplog.records) == 2


class ThreadRecordingPlanner(Planner):
    """Remembers which thread read a call."""

    def __init__(self) -> None:
        super().__init__(SECRET, share=0.0)
        self.threads: list[str] = []

    def read_call(self, request: PlanningRequest) -> Draft:
        self.threads.append(threading.current_thread().name)
        return super().read_call(request)


def test_only_large_prompts_go_to_a_thread(store):
    planner = ThreadRecordingPlanner()

    def prompt(size: int) -> Call:
        return call(body(chat_message("user", "x" * (size - len(body(chat_message("user", "")))))))

    async def work(planning: PromptPlanning) -> None:
        for request in (prompt(48 * 1_024 - 1), prompt(48 * 1_024)):
            assert isinstance(await planning.plan(request, ROUTE), Planned)

    with running_planning(store, planner) as planning:
        run(work(planning))
    assert planner.threads == [threading.current_thread().name, "planning_0"]


def test_a_large_prompt_goes_to_a_thread_only_while_much_of_it_is_new(store):
    planner, reader = ThreadRecordingPlanner(), BodyReader()
    texts = [chat_message("user", LARGE), chat_message("assistant", "Yes."), *LATER_MESSAGES]
    texts += [chat_message("user", "x" * size) for size in (16_000, 17_000)]

    def request(count: int) -> Call:
        fields, split = reader.read("team_1", raw_body := body(*texts[:count]))
        return call(raw_body, fields=fields, split=split)

    async def work(planning: PromptPlanning) -> None:
        for count in (1, 1, 3, 5, 6, 7):
            assert isinstance(await planning.plan(request(count), ROUTE), Planned)

    with running_planning(store, planner) as planning:
        run(work(planning))
    here = threading.current_thread().name
    assert planner.threads == ["planning_0", here, here, here, here, "planning_0"]


def test_a_prompt_that_comes_while_another_is_planned_waits_in_a_thread(store):
    planner = ThreadRecordingPlanner()

    async def work(planning: PromptPlanning) -> Planned | Passthrough:
        async with asyncio.TaskGroup() as group:
            with planning._lock:
                task = group.create_task(planning.plan(chat(), ROUTE))
                await asyncio.sleep(0)
        return task.result()

    with running_planning(store, planner) as planning:
        assert isinstance(run(work(planning)), Planned)
    assert planner.threads == ["planning_0"]


def test_calls_that_begin_and_end_hold_nobody_back(store):
    async def work(planning: PromptPlanning) -> None:
        for _ in range(3):
            planned = await planning.plan(chat(), ROUTE)
            for outcome in (planned, Passthrough()):
                planning.note_answer_started(outcome)
                planning.note_attempt_ended(outcome)
            assert planning._fanout._events == {}

    with running_planning(store) as planning:
        run(work(planning))


def test_an_answer_says_why_the_cache_missed(store):
    with running_planning(store) as planning:
        planned = run(plan_and_store(planning, chat()))
        miss = planning.settle(planned, Usage(input=3_000))

    assert miss is not None
    assert miss.reason == "first_seen"


def test_a_feature_whose_planned_prompt_was_refused_is_left_alone_for_a_while(store, caplog):
    clock = ManualClock(NOW)
    with running_planning(store, now=clock) as planning:
        planning.note_refusal(as_planned(run(planning.plan(chat(), ROUTE))))
        clock.now += 599.0
        left = run(planning.plan(chat(), ROUTE))
        clock.now += 1.0
        again = run(planning.plan(chat(), ROUTE))

    assert left == Passthrough("an upstream refused what was planned")
    assert isinstance(again, Planned)
    assert "took it unmodified" in caplog.text


def test_features_that_are_left_alone_are_bounded(store):
    with running_planning(store) as planning:
        planned = as_planned(run(planning.plan(chat(), ROUTE)))
        planning._refused = {LayoutScope("t", str(n)): 0.0 for n in range(1_025)}
        planning.note_refusal(planned)

    assert planning._refused.keys() == {planned.place}


def test_an_answer_waits_for_no_prompt_that_is_planned(store):
    with running_planning(store) as planning:
        planned = run(plan_and_store(planning, chat()))
        with planning._lock:
            miss = planning.settle(planned, Usage(input=3_000))
        assert miss is not None
        assert miss.reason is MissReason.FIRST_SEEN
        assert planning.settle(Passthrough(), Usage(input=3_000)) is None


def test_a_planner_that_fails_costs_no_answer(store, caplog):
    class Broken(Planner):
        def settle_call(self, *args: Any, **kwargs: Any) -> None:
            raise ZeroDivisionError

    with running_planning(store, Broken(SECRET, share=0.0)) as planning:
        planned = run(plan_and_store(planning, chat()))

        assert planning.settle(planned, None) is None
        assert not planning._lock.locked()
    assert "could not be evaluated" in caplog.text
