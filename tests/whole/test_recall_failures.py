"""A whole gateway whose model recalls, where a caller, an upstream or the database leaves."""

from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from compaction.recall.tool_index import TOOL_NAME
from proxy.records.receipt import Outcome
from tests.fakes.recall_desk import (
    FORCED,
    Desk,
    conversation,
    last_receipt,
    offers_recall,
    recall_once,
    run,
    text_of,
    words_of,
)
from tests.fakes.recalling_model import ModelTurn


def test_a_model_that_recalls_without_end_gets_the_unmodified_prompt(tmp_path: Path) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        if offers_recall(body):
            return ModelTurn(calls=[(TOOL_NAME, {"id": "1"})])
        return ModelTurn(text=words_of(body))

    async def work(desk: Desk) -> None:
        messages, place = conversation(0)
        raw = await desk.ask(messages)
        failed, answered = await desk.receipts(raw.headers["x-request-id"])

        assert place in await text_of(raw, is_streamed=False)
        assert len(desk.model.bodies) == 1 + 3 + 1
        assert (failed.error, failed.recalls) == ("recall_failed", 4)
        assert failed.usage is not None
        assert answered.compacted is False
        assert desk.model.bodies[-1]["messages"] == messages

    run(tmp_path, next_turn, work)


@pytest.mark.parametrize(("status", "breaks"), [(400, False), (503, False), (200, True)])
def test_a_second_recall_round_that_fails_before_content_ends_in_an_answer(
    tmp_path: Path, status: int, *, breaks: bool
) -> None:
    rounds = 0

    def next_turn(body: dict[str, Any]) -> ModelTurn:
        nonlocal rounds
        if body["messages"][-1]["role"] == "tool":
            rounds += 1
            if rounds == 1:
                return ModelTurn(status=status, breaks=breaks)
        return recall_once(body)

    async def work(desk: Desk) -> None:
        messages, place = conversation(0)
        raw = await desk.ask(messages, stream=True)
        text = await text_of(raw, is_streamed=True)
        failed, answered = await desk.receipts(raw.headers["x-request-id"])

        assert place in text
        assert (failed.outcome, failed.final, failed.recalls) == (Outcome.FAILED, False, 1)
        assert failed.cost_nanos
        assert answered.outcome is Outcome.ANSWERED
        assert answered.compacted is (status != 400)

    run(tmp_path, next_turn, work)


def test_a_caller_that_leaves_in_the_second_round_is_charged_for_both(tmp_path: Path) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        answer = recall_once(body)
        return answer if answer.calls else ModelTurn(hangs=True)

    async def work(desk: Desk) -> None:
        async with httpx.AsyncClient(timeout=1.0, trust_env=False) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.post(
                    f"{desk.url}/chat/completions",
                    json={"model": "talker", "messages": conversation(0)[0], "stream": True},
                    headers={"authorization": f"Bearer {desk.keys[0]}", **FORCED},
                )
        receipt = await last_receipt(desk)
        first = len(orjson.dumps(desk.model.bodies[0]["messages"])) // 4

        assert (receipt.outcome, receipt.recalls) == (Outcome.HUNG_UP, 1)
        assert receipt.usage is not None
        assert receipt.usage.prompt_tokens > first

    run(tmp_path, next_turn, work)


def test_no_team_recalls_what_another_ones_conversation_holds(tmp_path: Path) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return ModelTurn(text=last["content"])
        return ModelTurn(calls=[(TOOL_NAME, {"query": "red lantern"})])

    async def work(desk: Desk) -> None:
        (theirs, place), (own, _) = conversation(0), conversation(2)
        answer = await desk.ask(theirs)
        unknown = await desk.ask(own, team=1)

        assert place in await text_of(answer, is_streamed=False)
        text = await text_of(unknown, is_streamed=False)
        assert place not in text
        assert "No shortened message holds these words" in text

    run(tmp_path, next_turn, work)


def test_a_recall_is_answered_while_the_database_is_gone(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        messages, place = conversation(0)
        await desk.ask(messages)  # keys are known from here on
        for file in (tmp_path / "gateway").glob("thriftgate.db*"):
            file.unlink()
        raw = await desk.ask(messages)

        assert place in await text_of(raw, is_streamed=False)
        assert raw.headers["x-thriftgate-compaction"].startswith("compacted")

    run(tmp_path, recall_once, work)
