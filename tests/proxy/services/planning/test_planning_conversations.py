"""Tests of what was decided for a conversation is shared through the store, and holds."""

import asyncio
from itertools import count
from typing import Any

import orjson
import pytest

from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.planned import Draft, Passthrough, Planned
from proxy.prefix.planner import Planner
from proxy.services.planning.known_layouts import STORE_DEADLINE_S
from proxy.services.planning.planning import PromptPlanning
from proxy.store.store import Store
from tests.fakes.call_dependencies import call
from tests.fakes.clock import run_in_instant_time
from tests.proxy.prefix.planning_requests import (
    NOW,
    SECRET,
    body,
    chat_message,
    conversation_messages,
    tool,
)
from tests.proxy.services.planning.planning_fixtures import (
    LARGE,
    ROUTE,
    SlowStore,
    UnreachableStore,
    as_planned,
    chat,
    open_store,
    plan_and_store,
    run,
    running_planning,
)


def names(planned: Planned | Passthrough) -> list[str]:
    assert isinstance(planned, Planned)
    return [tool["function"]["name"] for tool in orjson.loads(planned.body)["tools"]]


def test_a_conversations_plan_is_stored_before_its_answer_ends(store):
    with running_planning(store) as planning:
        planned = run(plan_and_store(planning, chat(tools=[tool("a")])))

    assert store.plans.find(planned.draft.conversation.hex(), NOW) == planned.plan


def test_a_conversation_is_planned_alike_by_another_process(store):
    tools = [tool("b"), tool("a")]
    with (
        running_planning(store, Planner(SECRET, share=1.0)) as first,
        running_planning(store) as second,
    ):
        run(plan_and_store(first, chat(tools=tools)))
        planned = run(plan_and_store(second, chat(1, tools=tools)))

    assert planned.plan.arm is ExperimentArm.CONTROL
    assert names(planned) == ["b", "a"]


def test_an_unknown_conversation_that_is_under_way_is_joined(store):
    with running_planning(store) as planning:
        planned = run(plan_and_store(planning, chat(2, tools=[tool("b"), tool("a")])))

    assert planned.plan.joined
    assert names(planned) == ["b", "a"]


@pytest.mark.parametrize("kind", [UnreachableStore, SlowStore])
def test_a_conversation_the_store_says_nothing_of_is_joined_in_time(tmp_path, kind, caplog):
    store = open_store(tmp_path, kind)
    with running_planning(store) as planning:
        planned = as_planned(run_in_instant_time(planning.plan(chat(1), ROUTE)))
    store.close(5)

    assert planned.plan.joined
    assert "The plan of a conversation could not be read" in caplog.text


def test_the_first_to_keep_a_plan_decides_for_both(store):
    with (
        running_planning(store, Planner(SECRET, share=1.0)) as first,
        running_planning(store) as second,
    ):
        run(plan_and_store(first, chat(tools=[tool("b"), tool("a")])))
        begun = run(plan_and_store(second, chat(tools=[tool("b"), tool("a")])))
        planned = run(plan_and_store(second, chat(1, tools=[tool("b"), tool("a")])))

    assert begun.plan.arm is ExperimentArm.TREATED
    assert planned.plan.arm is ExperimentArm.CONTROL
    assert names(planned) == ["b", "a"]


def test_of_calls_that_begin_a_conversation_at_once_the_first_decides(store):
    tools = [[tool("b")], [tool("a"), tool("b")]]

    async def work(planning: PromptPlanning) -> list[Planned | Passthrough]:
        calls = (
            call(body(chat_message("system", LARGE), chat_message("user", "Well?"), tools=toolset))
            for toolset in tools
        )
        return await asyncio.gather(*(planning.plan(call, ROUTE) for call in calls))

    with running_planning(store) as planning:
        result = run(work(planning))

    assert sorted(map(names, result), key=len) in ([["b"], ["b", "a"]], [["b"], ["a", "b"]])
    assert len(as_planned(result[0]).plan.tools) != len(as_planned(result[1]).plan.tools)


def test_a_tool_another_process_met_first_keeps_its_place(store):
    def tools(*names: str) -> list[Any]:
        return [tool(name) for name in names]

    with running_planning(store) as first, running_planning(store) as second:
        run(plan_and_store(first, chat(tools=tools("m"))))
        run(plan_and_store(second, chat(1, tools=tools("m", "z"))))
        planned = run(plan_and_store(first, chat(2, tools=tools("m", "z", "a"))))
        again = run(plan_and_store(second, chat(3, tools=tools("m", "z", "a"))))

    assert names(planned) == names(again) == ["m", "z", "a"]


def test_a_call_that_was_not_planned_has_nothing_to_wait_for(store):
    with running_planning(store) as planning:
        run(planning.wait_until_stored(Passthrough()))


def test_an_answer_does_not_wait_long_for_a_store_that_is_slow(tmp_path):
    store = open_store(tmp_path, SlowStore)

    async def work(planning: PromptPlanning) -> float:
        loop = asyncio.get_running_loop()
        planned = await planning.plan(chat(), ROUTE)
        began = loop.time()
        await planning.wait_until_stored(planned)
        return loop.time() - began

    with running_planning(store) as planning:
        took = run_in_instant_time(work(planning))
    store.close(5)

    assert took == pytest.approx(STORE_DEADLINE_S)


def test_a_plan_that_could_not_be_kept_holds_here(tmp_path, caplog):
    store = open_store(tmp_path, UnreachableStore)
    with running_planning(store) as planning:
        begun = run(plan_and_store(planning, chat()))
        assert planning._planner.known_plan(begun.draft) == begun.plan
    store.close(5)

    assert "The plans of 1 conversation could not be stored" in caplog.text


def test_an_answer_waits_for_its_own_plan_and_for_no_other(store):
    """A gateway that begins conversations all the time never has nothing to keep."""

    async def work(planning: PromptPlanning) -> None:
        planned, others = await planning.plan(chat(), ROUTE), count()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(planning.wait_until_stored(planned))
            while not task.done():
                other = call(body(*conversation_messages(0, opening=f"I am {next(others)}.")))
                await planning.plan(other, ROUTE)
                await asyncio.sleep(0)
            assert planning._unstored

    with running_planning(store) as planning:
        run(work(planning))


def test_plans_made_moments_after_another_was_stored_go_in_one_step(tmp_path):
    steps = []

    class StepCountingStore(Store):
        async def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
            steps.append(question)
            return question(*args, **kwargs)  # at once, so that time passes by sleeping alone

    async def work(planning: PromptPlanning) -> None:
        for number in range(4):
            one = call(body(*conversation_messages(0, opening=f"I am {number}.")))
            planned = await planning.plan(one, ROUTE)
            await asyncio.sleep(0.001)
        await planning.wait_until_stored(planned)

    store = open_store(tmp_path, StepCountingStore)
    with running_planning(store) as planning:
        run_in_instant_time(work(planning))
    store.close(5)

    assert steps == [store.plans.grow_all] * 2


def test_plans_on_their_way_to_the_store_are_bounded(store):
    with running_planning(store) as planning:
        waiting: dict[str, Any] = {str(number): None for number in range(1_024)}
        planning._unstored = waiting
        planned = as_planned(run(planning.plan(chat(), ROUTE)))

        assert len(planning._unstored) == 1_024
        assert planning._planner.known_plan(planned.draft) == planned.plan


def test_plans_waiting_for_the_store_hold_no_prompt_text(tmp_path):
    store = open_store(tmp_path, SlowStore)

    async def work(planning: PromptPlanning) -> Draft:
        await planning.plan(chat(), ROUTE)
        ((draft, _),) = planning._unstored.values()
        return draft

    with running_planning(store) as planning:
        draft = run_in_instant_time(work(planning))
    store.close(5)

    assert (draft.request.body, draft.prompt.messages) == (b"", ())


#: What an agent says at the beginning of each of its sessions.
REMINDERS = [chat_message("user", f"Rule {number} of this house.") for number in range(3)]


def session(name: str, *first: Any) -> list[Any]:
    """The calls of a session, each with one more answer of its own."""
    messages, calls = [chat_message("system", LARGE[:4_000]), *REMINDERS, *first], []
    for turn in range(6):
        calls.append(call(body(*messages)))
        messages += [
            chat_message("assistant", f"{name}: {turn}."),
            chat_message("user", f"{name}: on."),
        ]
    return calls


def identities(
    sessions: list[list[Any]], *replicas: PromptPlanning, since: int = 0
) -> list[set[tuple[bytes, ExperimentArm]]]:
    """Conversation of each session: all take turns, and replicas take turns within one."""

    async def work() -> list[set[tuple[bytes, ExperimentArm]]]:
        identity_sets: list[set[tuple[bytes, ExperimentArm]]] = [set() for _ in sessions]
        for turn in range(6):
            for index, calls in enumerate(sessions):
                one = await plan_and_store(replicas[(index + turn) % len(replicas)], calls[turn])
                if turn >= since:
                    identity_sets[index].add((one.draft.conversation, one.plan.arm))
        return identity_sets

    return run(work())


def test_sessions_that_begin_alike_are_kept_apart_by_all_replicas(store):
    sessions = [session(f"S{n}", chat_message("user", f"I am {n}.")) for n in range(10)]
    with (
        running_planning(store, Planner(SECRET, share=0.5)) as one,
        running_planning(store, Planner(SECRET)) as two,
    ):
        identity_sets = identities(sessions, one, two)

    assert {len({name for name, _ in identities}) for identities in identity_sets} == {1}
    assert len(set[Any]().union(*identity_sets)) == 10


def test_replicas_agree_on_who_goes_on_with_what_all_began(store):
    sessions = [session(f"S{n}") for n in range(6)]
    planners = [Planner(SECRET, share=0.5) for _ in range(2)]
    with running_planning(store, planners[0]) as one, running_planning(store, planners[1]) as two:
        identity_sets = identities(sessions, one, two, since=1)

    assert {len(identities) for identities in identity_sets} == {1}
    assert len(set[Any]().union(*identity_sets)) == 6


def test_a_restart_in_the_middle_changes_nothing(store):
    sessions = [session(f"S{n}", chat_message("user", f"I am {n}.")) for n in range(4)]
    with running_planning(store) as before:
        first = [
            run(plan_and_store(before, calls[index])) for calls in sessions for index in range(3)
        ]
    with running_planning(store) as after:
        last = [run(plan_and_store(after, calls[4])) for calls in sessions]

    names = [planned.draft.conversation for planned in last]
    assert names == [planned.draft.conversation for planned in first[2::3]]
    assert len(set(names)) == 4
    assert not any(planned.plan.joined for planned in last)


def test_of_sessions_that_go_on_at_once_with_what_all_began_each_is_its_own(store):
    sessions = [session(f"S{n}") for n in range(6)]

    async def work(planning: PromptPlanning) -> list[set[bytes]]:
        identity_sets: list[set[bytes]] = [set() for _ in sessions]
        for turn in range(4):
            calls = [planning.plan(session[turn], ROUTE) for session in sessions]
            for index, one in enumerate(await asyncio.gather(*calls)):
                identity_sets[index] |= {as_planned(one).draft.conversation} if turn else set()
        return identity_sets

    with running_planning(store) as planning:
        identity_sets = run(work(planning))

    assert {len(identities) for identities in identity_sets} == {1}
    assert len(set[bytes]().union(*identity_sets)) == 6


class StepCountingStore(Store):
    """A database that counts what it is asked."""

    questions = 0

    async def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
        self.questions += getattr(question, "__name__", "") == "find_all"
        return await super().ask(question, *args, **kwargs)


def test_a_store_is_asked_once_a_call_at_most(tmp_path):
    store = open_store(tmp_path, StepCountingStore)
    questions = []
    with running_planning(store) as planning:
        for one in session("S"):
            before = store.questions
            run(plan_and_store(planning, one))
            questions.append(store.questions - before)
    store.close(5)

    assert questions[0] == 0  # nothing is known of what begins
    assert max(questions) == 1
