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
    assert [each.planned for each in answers] == planned_calls
    assert [each.error for each in answers] == [""] * len(planned_calls)
    assert len({each.call_id for each in answers if each.call_id}) == len(planned_calls)


def test_each_answer_says_what_it_used(answers: list[DemoCall]) -> None:
    assert all(each.input > 0 and each.output > 0 for each in answers)


def test_streams_tell_when_their_first_token_came(answers: list[DemoCall]) -> None:
    waits = [each.ttft for each in answers if each.planned.streamed]

    assert len(waits) == len(answers) / 2
    assert all(wait is not None and wait > 0 for wait in waits)
    assert {each.ttft for each in answers if not each.planned.streamed} == {None}


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
    coding = next(each for each in planned if each.feature == "coding-agent")
    scripted = coding.conversation
    answered: dict[int, Message | None] = {}

    class Asks(Says):
        def body(
            self, turn: int, at: datetime, answers: Sequence[Message | None]
        ) -> dict[str, Any]:
            answered.update(enumerate(answers))
            asked = [{"role": "user", "content": "Go. [[fault:call]] [[fault:call]]"}]
            return {"messages": asked, "tools": scripted.body(0, NOW)["tools"]}

    two = plan(Asks("", length=2), streamed=streamed)
    assert [each.error for each in outcome(two)] == ["", ""]
    made = (answered[0] or {})["tool_calls"]

    assert len(made) == 2
    assert len({each["id"] for each in made}) == 2
    assert all(each["function"]["name"] for each in made)
    assert all(each["function"]["arguments"].startswith("{") for each in made)


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
