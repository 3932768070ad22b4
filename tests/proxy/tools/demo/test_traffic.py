import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from proxy.tools.demo.conversation import Message
from proxy.tools.demo.plan import PlannedCall, calls
from proxy.tools.demo.traffic import DemoCall
from tests.proxy.tools.demo.scripts import NOW, Says, a_stage, plan, send_calls


def outcome(planned_calls: Sequence[PlannedCall]) -> list[DemoCall]:
    async def scene() -> list[DemoCall]:
        async with a_stage() as staged:
            return await send_calls(staged, planned_calls)

    return asyncio.run(scene())


@pytest.fixture(scope="module")
def planned_calls() -> list[PlannedCall]:
    return list(calls(start=NOW, count=24))


@pytest.fixture(scope="module")
def answers(planned_calls: list[PlannedCall]) -> list[DemoCall]:
    return outcome(planned_calls)


def test_each_call_is_answered_under_an_id_of_its_own(
    planned_calls: list[PlannedCall], answers: list[DemoCall]
) -> None:
    assert [answer.planned for answer in answers] == planned_calls
    assert [answer.error for answer in answers] == [""] * len(planned_calls)
    assert len({answer.call_id for answer in answers if answer.call_id}) == len(planned_calls)


def test_each_answer_says_what_it_used(answers: list[DemoCall]) -> None:
    assert all(answer.input > 0 and answer.output > 0 for answer in answers)


def test_streams_tell_when_their_first_token_came(answers: list[DemoCall]) -> None:
    waits = [answer.ttft for answer in answers if answer.planned.streamed]

    assert len(waits) == len(answers) / 2
    assert all(wait is not None and wait > 0 for wait in waits)
    assert {answer.ttft for answer in answers if not answer.planned.streamed} == {None}


@pytest.mark.parametrize("streamed", [True, False])
def test_a_turn_has_the_answer_before_it_in_its_history(*, streamed: bool) -> None:
    turns = plan(Says("Say it in five words. [[fault:words=5]]", length=3), streamed=streamed)
    outcome(turns)
    _, first, _, second, _ = turns[-1].body()["messages"]

    assert "[simulated]" in first["content"]
    assert "[simulated]" in second["content"]


@pytest.mark.parametrize("streamed", [True, False])
def test_tool_calls_come_back_whole(*, streamed: bool) -> None:
    planned = list(calls(start=NOW, count=60))
    coding = next(call for call in planned if call.feature == "coding-agent")
    scripted = coding.conversation
    answered: dict[int, Message | None] = {}

    class Asks(Says):
        def body(
            self, turn: int, time: datetime, answers: Sequence[Message | None]
        ) -> dict[str, Any]:
            answered.update(enumerate(answers))
            messages = [{"role": "user", "content": "Go. [[fault:call]] [[fault:call]]"}]
            return {"messages": messages, "tools": scripted.body(0, NOW)["tools"]}

    two = plan(Asks("", length=2), streamed=streamed)
    assert [call.error for call in outcome(two)] == ["", ""]
    tool_calls = (answered[0] or {})["tool_calls"]

    assert len(tool_calls) == 2
    assert len({tool_call["id"] for tool_call in tool_calls}) == 2
    assert all(tool_call["function"]["name"] for tool_call in tool_calls)
    assert all(tool_call["function"]["arguments"].startswith("{") for tool_call in tool_calls)


def test_a_refused_call_is_told_not_raised() -> None:
    (refused,) = outcome(plan(Says("Hello!", model="no-such-model")))

    assert "no-such-model" in refused.error
    assert refused.call_id


def test_a_stream_that_dies_midway_is_told_with_its_id() -> None:
    (broken,) = outcome(plan(Says("Hello! [[fault:death]]"), streamed=True))

    assert broken.error
    assert broken.call_id


def test_a_broken_json_answer_is_told() -> None:
    (broken,) = outcome(plan(Says("Hello! [[fault:short]]")))

    assert broken.error
    assert broken.call_id


def test_a_conversation_goes_on_after_a_call_that_failed() -> None:
    refused, after = outcome(plan(Says("Hello! [[fault:422]]", length=2)))

    assert refused.error
    assert after.error
