"""A whole gateway whose model recalls, where a caller, an upstream or the database leaves."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from compaction.recall.tool_index import TOOL_NAME
from proxy.records.receipt import Outcome
from tests.fakes.model_wires import ModelTurn, prompt_tokens
from tests.fakes.recall_apis import APIS, Api, history, offers_recall, recalled_texts, words_of
from tests.fakes.recall_desk import FORCED, Desk, conversation, last_receipt, recall_once, run

in_each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
#: The path of each API, its name of the messages, and the fields that it needs.
PATHS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "chat": ("chat/completions", "messages", {}),
    "messages": ("messages", "messages", {"max_tokens": 900}),
    "responses": ("responses", "input", {"store": False}),
}


def raw_call(desk: Desk, api: Api) -> dict[str, Any]:
    """A streamed call of an API as its bytes."""
    path, name, fields = PATHS[api.name]
    messages = conversation(0)[0][1:]
    return {
        "url": f"{desk.url}/{path}",
        "json": {"model": api.model, name: messages, "stream": True, **fields},
        "headers": {"authorization": f"Bearer {desk.keys[0]}", **FORCED},
    }


@in_each_api
@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_model_that_recalls_without_end_gets_the_unmodified_prompt(
    tmp_path: Path, api: Api, *, is_streamed: bool
) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        if offers_recall(body):
            return ModelTurn(thinking="Hm.", calls=[(TOOL_NAME, {"id": "1"})])
        return ModelTurn(text=words_of(body))

    async def work(desk: Desk) -> None:
        messages, place = conversation(0)
        answer = await desk.ask(messages, api, stream=is_streamed)
        failed, answered = await desk.receipts(answer.call_id)

        assert place in answer.text
        assert len(desk.model.bodies) == 1 + 3 + 1
        assert (failed.error, failed.recalls) == ("recall_failed", 4)
        assert failed.usage is not None
        assert answered.compacted is False
        assert history(desk.model.bodies[-1])[-1] == messages[-1]
        again = await desk.ask(messages, api, stream=is_streamed)
        assert len(desk.model.bodies) == 2 * (1 + 3 + 1)  # it is compacted as before
        assert place in again.text

    run(tmp_path, next_turn, work)


@in_each_api
@pytest.mark.parametrize(("status", "breaks"), [(400, False), (503, False), (200, True)])
def test_a_second_recall_round_that_fails_before_content_ends_in_an_answer(
    tmp_path: Path, status: int, api: Api, *, breaks: bool
) -> None:
    rounds = 0

    def next_turn(body: dict[str, Any]) -> ModelTurn:
        nonlocal rounds
        if recalled_texts(body):
            rounds += 1
            if rounds == 1:
                return ModelTurn(status=status, breaks=breaks)
        return recall_once(body)

    async def work(desk: Desk) -> None:
        messages, place = conversation(0)
        answer = await desk.ask(messages, api, stream=True)
        failed, answered = await desk.receipts(answer.call_id)

        assert place in answer.text
        assert (failed.outcome, failed.final, failed.recalls) == (Outcome.FAILED, False, 1)
        assert failed.cost_nanos
        assert answered.outcome is Outcome.ANSWERED
        assert answered.compacted is (status != 400)

    run(tmp_path, next_turn, work)


@in_each_api
def test_a_second_round_that_fails_after_content_ends_the_stream_with_an_error(
    tmp_path: Path, api: Api
) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        if recalled_texts(body):
            return ModelTurn(status=503)
        text = "Let me look that up."
        return ModelTurn(text=text, calls=[(TOOL_NAME, {"id": "1"})], waits=True)

    async def work(desk: Desk) -> None:
        async with (
            httpx.AsyncClient(trust_env=False) as client,
            client.stream("POST", **raw_call(desk, api)) as answer,
        ):
            received = b""
            async for piece in answer.aiter_bytes():
                received += piece
                if b"that up." in received:
                    desk.model.go_on.set()
        receipt = await last_receipt(desk)

        assert b"error" in received
        assert TOOL_NAME.encode() not in received
        assert (receipt.outcome, receipt.final, receipt.recalls) == (Outcome.BROKEN, True, 1)
        assert len(desk.model.bodies) == 2

    run(tmp_path, next_turn, work)


@in_each_api
def test_a_caller_that_leaves_in_the_second_round_is_charged_for_both(
    tmp_path: Path, api: Api
) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        answer = recall_once(body)
        return answer if answer.calls else ModelTurn(hangs=True)

    async def work(desk: Desk) -> None:
        async with httpx.AsyncClient(timeout=1.0, trust_env=False) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.request("POST", **raw_call(desk, api))
        receipt = await last_receipt(desk)

        assert (receipt.outcome, receipt.recalls) == (Outcome.HUNG_UP, 1)
        assert receipt.usage is not None
        assert receipt.usage.prompt_tokens > prompt_tokens(desk.model.bodies[0])

    run(tmp_path, next_turn, work)


@in_each_api
def test_no_team_recalls_what_another_ones_conversation_holds(tmp_path: Path, api: Api) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        if texts := recalled_texts(body):
            return ModelTurn(text=texts[-1])
        return ModelTurn(calls=[(TOOL_NAME, {"query": "red lantern"})])

    async def work(desk: Desk) -> None:
        (theirs, place), (own, _) = conversation(0), conversation(2)
        answer = await desk.ask(theirs, api)
        unknown = await desk.ask(own, api, team=1)

        assert place in answer.text
        assert place not in unknown.text
        assert "No shortened message holds these words" in unknown.text

    run(tmp_path, next_turn, work)


@in_each_api
def test_a_recall_is_answered_while_the_database_is_gone(tmp_path: Path, api: Api) -> None:
    async def work(desk: Desk) -> None:
        messages, place = conversation(0)
        await desk.ask(messages, api)  # keys are known from here on
        for file in (tmp_path / "gateway").glob("thriftgate.db*"):
            file.unlink()
        answer = await desk.ask(messages, api)

        assert place in answer.text
        assert answer.headers["x-thriftgate-compaction"].startswith("compacted")

    run(tmp_path, recall_once, work)
