"""Made-up workloads: deterministic, valid, and laid out at the rate asked for."""

from itertools import pairwise

import pytest

from tests.fakes import agent_workloads, chat_workloads, odd_workloads
from tests.fakes.workloads import (
    SHORTEST_GAP_S,
    Pace,
    Session,
    Sessions,
    SessionTurn,
    Workload,
    change_sessions,
    extends,
    timed_calls,
)

MAKERS = (
    agent_workloads.coding_agents,
    agent_workloads.tailed_agents,
    chat_workloads.alike_sessions,
    chat_workloads.few_shot,
    chat_workloads.repeated_calls,
    chat_workloads.one_shots,
    chat_workloads.retrieval,
    odd_workloads.paced_workloads,
    odd_workloads.marked_by_caller,
    odd_workloads.small_workloads,
    odd_workloads.unstable_workloads,
    odd_workloads.changing_workloads,
)
WORKLOADS = {workload.name: workload for make in MAKERS for workload in make()}


def _numbered_workload(sessions: int, turns: int, **pace: float) -> Workload:
    def session(index: int) -> Session:
        session_turns = [
            SessionTurn(body={"messages": [], "number": number}) for number in range(turns)
        ]
        return Session(name=f"s{index}", turns=session_turns)

    return Workload(name="counted", sessions=Sessions(sessions, session), pace=Pace(**pace))  # type: ignore[arg-type]


def test_names_of_workloads_are_unique():
    assert len(WORKLOADS) == sum(1 for make in MAKERS for _ in make())


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_each_time_it_is_made(name):
    make = next(make for make in MAKERS if any(workload.name == name for workload in make()))
    again = next(workload for workload in make() if workload.name == name)
    first, second = (
        [call.body(workload, "m", "openai-breakpoint") for call in timed_calls(workload, 30, 8)]
        for workload in (WORKLOADS[name], again)
    )

    assert first == second


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_tool_result_of_a_workload_answers_a_call_just_before_it(name):
    for turn in WORKLOADS[name].sessions[0].turns:
        waiting: set[str] = set()
        for message in turn.body["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] in waiting
                waiting.remove(message["tool_call_id"])
                continue
            assert not waiting
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
        assert not waiting


@pytest.mark.parametrize("name", [w.name for w in agent_workloads.coding_agents()])
def test_a_well_built_agents_calls_extend_each_other(name):
    turns = WORKLOADS[name].sessions[0].turns

    assert all(extends(before.body, after.body) for before, after in pairwise(turns))


@pytest.mark.parametrize("name", [*agent_workloads.TAILS])
def test_a_tail_is_gone_once_the_conversation_goes_on(name):
    turns = WORKLOADS[name].sessions[0].turns

    assert not all(extends(before.body, after.body) for before, after in pairwise(turns))


def test_calls_are_made_at_the_rate_asked_for():
    calls = timed_calls(_numbered_workload(40, 10, at_once=20), 120, 200)

    assert 60 * len(calls) / calls[-1].at == pytest.approx(120, rel=0.1)
    assert [call.at for call in calls] == sorted(call.at for call in calls)


def test_a_session_makes_its_calls_in_order_and_not_too_fast():
    calls = timed_calls(_numbered_workload(9, 12, at_once=1), 120, 100)
    gaps = []
    for name in {call.session.name for call in calls}:
        own = [call for call in calls if call.session.name == name]
        assert [call.turn.body["number"] for call in own] == [*range(len(own))]
        gaps += [after.at - before.at for before, after in pairwise(own)]

    assert min(gaps) >= SHORTEST_GAP_S * 0.7


def test_bursts_come_together_and_pauses_apart():
    together = timed_calls(_numbered_workload(40, 4, at_once=20, burst=5), 30, 20)
    apart = timed_calls(_numbered_workload(40, 4, at_once=20, pause_s=300, pause_every=10), 30, 20)

    assert all(call.at - together[0].at < 0.5 for call in together[:5])
    assert together[5].at - together[4].at > 1
    assert apart[10].at - apart[9].at > 300


def test_sessions_are_made_once_and_changed_when_asked_for():
    indexes: list[int] = []

    def make(index: int) -> Session:
        indexes.append(index)
        return Session(name=str(index), turns=())

    sessions = Sessions(5, make)
    changed = change_sessions(sessions, lambda session: Session(name=f"{session.name}!", turns=()))

    assert changed[3].name == changed[3].name == "3!"
    assert indexes == [3]
    assert [session.name for session in sessions[1:3]] == ["1", "2"]
    with pytest.raises(IndexError):
        sessions[5]


def test_a_caller_marks_its_own_prompt_only_where_the_cache_takes_marks():
    workload = WORKLOADS["own marks: last"]
    (call,) = timed_calls(workload, 30, 1)

    assert b"cache_control" in call.body(workload, "m", "anthropic-breakpoint")
    assert b"prompt_cache_breakpoint" in call.body(workload, "m", "openai-breakpoint")
    assert b'"type":"text"' not in call.body(workload, "m", "implicit")
