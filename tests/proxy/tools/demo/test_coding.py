import json
from datetime import UTC, datetime

import pytest

from proxy.tools.demo.coding import CodingScript, agents, tasks
from proxy.tools.demo.conversation import Message, text

NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)
MODEL = "claude-sonnet-5-5"
TOOLS = {tool["name"]: tool["parameters"] for tool in json.loads(text("tools.json"))}


def names(agent: CodingScript, turn: int) -> list[str]:
    body = agent.body(turn, NOON, [None] * turn)
    return [tool["function"]["name"] for tool in body["tools"]]


def unanswered_ids(messages: list[Message]) -> set[str]:
    """Ids of tool calls not answered directly below, and of results that answer nothing."""
    wrong: set[str] = set()
    open_ids: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            wrong |= {message["tool_call_id"]} - open_ids
            open_ids.discard(message["tool_call_id"])
            continue
        wrong |= open_ids
        open_ids = {call["id"] for call in message.get("tool_calls", ())}
    return wrong | open_ids


def test_an_agent_gathers_its_tools_once_for_a_session_and_each_in_another_order() -> None:
    sessions = agents("2", MODEL)
    orders = [{tuple(names(agent, turn)) for turn in range(agent.length)} for agent in sessions]

    assert {len(order) for order in orders} == {1}
    assert len(set.union(*orders)) == len(sessions)
    assert {frozenset(order) for order in set.union(*orders)} == {frozenset(TOOLS)}
    assert 8 <= len(TOOLS) <= 12


def test_a_session_is_two_tasks_and_the_second_begins_with_the_users_question() -> None:
    for agent in agents("2", MODEL):
        questions = [step for step in agent.task.steps if step.asks]
        assert agent.length >= 2 * min(len(task.steps) for task in tasks())
        assert not questions[0].says
        assert all(step.says for step in agent.task.steps[1:])
        assert len(questions) >= 2


def test_the_same_call_has_the_same_order_again() -> None:
    first, again = agents("2", MODEL)[0], agents("2", MODEL)[0]
    assert names(first, 3) == names(again, 3)


def test_place_date_and_user_are_the_first_lines() -> None:
    for agent in agents("2", MODEL):
        lines = agent.body(0, NOON, [])["messages"][0]["content"].splitlines()
        assert lines[0].startswith("Working directory: /home/")
        assert lines[1] == "Today's date: Tuesday, 03 November 2026"
        assert lines[2] == f"User: {agent.user}"


def test_every_agent_works_for_another_user() -> None:
    sessions = agents("2", MODEL)
    assert len({agent.user for agent in sessions}) == len(sessions) == len(tasks())


def test_recorded_tool_calls_fit_their_definitions() -> None:
    for task in tasks():
        for use in (use for step in task.steps for use in step.uses):
            arguments = json.loads(use.arguments)
            assert arguments.keys() <= TOOLS[use.tool]["properties"].keys()
            assert set(TOOLS[use.tool]["required"]) <= arguments.keys()
            assert use.result


def test_a_step_either_asks_or_calls() -> None:
    for task in tasks():
        assert task.steps[0].asks
        assert not task.steps[0].says
        for step in task.steps[1:]:
            assert step.says
            assert bool(step.asks) != bool(step.uses)


def test_every_tool_call_of_the_recording_is_answered() -> None:
    for agent in agents("2", MODEL):
        for turn in range(agent.length):
            messages = agent.body(turn, NOON, [None] * turn)["messages"]
            assert unanswered_ids(messages) == set()
            assert messages[-1]["role"] in {"user", "tool"}


def test_each_call_extends_the_messages_of_the_one_before() -> None:
    for agent in agents("2", MODEL):
        for turn in range(1, agent.length):
            before = agent.body(turn - 1, NOON, [None] * (turn - 1))["messages"]
            assert agent.body(turn, NOON, [None] * turn)["messages"][: len(before)] == before


def test_ids_of_tool_calls_are_unique_within_a_conversation() -> None:
    for agent in agents("2", MODEL):
        last = agent.length - 1
        messages = agent.body(last, NOON, [None] * last)["messages"]
        ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        assert len(ids) == len(set(ids))


def test_real_words_replace_the_recorded_ones_and_recorded_calls_stay() -> None:
    agent = agents("2", MODEL)[0]
    reply = {"role": "assistant", "content": "Simulated."}
    message = agent.body(1, NOON, [reply])["messages"][2]
    assert message["content"] == "Simulated."
    assert len(message["tool_calls"]) == len(agent.task.steps[1].uses)


def test_recorded_words_fill_in_for_an_answer_that_never_came() -> None:
    agent = agents("2", MODEL)[0]
    assert agent.body(1, NOON, [None])["messages"][2]["content"] == agent.task.steps[1].says


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_real_tool_calls_are_kept_and_answered(turn: int) -> None:
    agent = agents("2", MODEL)[0]
    use = agent.task.steps[turn].uses[0]
    calls = [
        {"id": "call_a", "type": "function", "function": {"name": use.tool, "arguments": "{}"}},
        {"id": "call_b", "type": "function", "function": {"name": "commit", "arguments": "{}"}},
    ]
    reply = {"role": "assistant", "tool_calls": calls}
    messages = agent.body(turn, NOON, [*[None] * (turn - 1), reply])["messages"]
    assert reply in messages
    assert unanswered_ids(messages) == set()
    results = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    assert results["call_a"] == use.result
    assert results["call_b"] == "The tool gave no output."


def test_a_tool_call_the_script_did_not_expect_is_answered_before_the_user_writes() -> None:
    agent = agents("2", MODEL)[0]
    turn = next(n for n, step in enumerate(agent.task.steps) if n and step.asks)
    call = {"id": "call_a", "type": "function", "function": {"name": "commit", "arguments": "{}"}}
    reply = {"role": "assistant", "tool_calls": [call]}
    *_, result, question = agent.body(turn, NOON, [*[None] * (turn - 1), reply])["messages"]
    assert result["tool_call_id"] == "call_a"
    assert question == {"role": "user", "content": agent.task.steps[turn].asks}


def test_a_file_is_read_with_its_lines_numbered() -> None:
    reads = [
        use
        for task in tasks()
        for step in task.steps
        for use in step.uses
        if use.arguments == '{"path": "stockroom/money.py"}'
    ]
    assert reads[0].result.startswith("   1  from __future__ import annotations\n   2  \n")
