"""A whole gateway whose model recalls what compaction took out."""

from pathlib import Path
from typing import Any

import anthropic
import orjson
import pytest

from compaction.recall.tool_index import TOOL_NAME
from proxy.records.receipt import Outcome
from tests.fakes.recall_desk import (
    CONVERSATIONS,
    FORCED,
    Desk,
    conversation,
    recall_once,
    run,
    text_of,
    words_of,
)
from tests.fakes.recalling_model import ModelTurn


@pytest.mark.parametrize("first_number", range(0, 1_000, 200))
def test_each_of_500_questions_about_something_taken_out_is_answered_by_one_recall(
    tmp_path: Path, first_number: int
) -> None:
    async def work(desk: Desk) -> None:
        number, answered = first_number, 0
        call_ids: list[str] = []
        while len(call_ids) < CONVERSATIONS:
            messages, place = conversation(number)
            is_streamed, number = number % 2 == 0, number + 1
            raw = await desk.ask(messages, stream=is_streamed)
            text = await text_of(raw, is_streamed=is_streamed)
            first, second = desk.model.bodies
            desk.model.bodies.clear()
            assert second["messages"][: len(first["messages"])] == first["messages"]
            if place not in words_of(first):
                answered += place in text
                call_ids.append(raw.headers["x-request-id"])
        receipts = [(await desk.receipts(call_id))[0] for call_id in call_ids]

        assert answered == CONVERSATIONS
        assert number < first_number + 2 * CONVERSATIONS
        assert {receipt.recalls for receipt in receipts} == {1}
        assert all(0 < receipt.recalled_tokens <= 8_000 for receipt in receipts)

    run(tmp_path, recall_once, work)


def test_a_recalled_calls_receipt_has_the_usage_and_cost_of_all_rounds(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        raw = await desk.ask(conversation(0)[0])
        (receipt,) = await desk.receipts(raw.headers["x-request-id"])
        prompts = [len(orjson.dumps(body["messages"])) // 4 for body in desk.model.bodies]

        assert receipt.usage is not None
        assert receipt.usage.prompt_tokens == sum(prompts)
        assert raw.parse().usage.prompt_tokens == prompts[1]
        generated = receipt.usage.generated_tokens
        assert receipt.cost_nanos == 1_000 * sum(prompts) + 4_000 * generated
        assert (receipt.recalls, receipt.outcome, receipt.final) == (1, Outcome.ANSWERED, True)
        assert receipt.compaction == "facts+recall"

    run(tmp_path, recall_once, work)


def test_text_before_a_recall_goes_on_in_a_stream_and_is_left_out_of_a_whole_answer(
    tmp_path: Path,
) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        answer = recall_once(body)
        is_first = bool(answer.calls)
        text = "Let me look that up." if is_first else "It is there."
        return ModelTurn(text=text, calls=answer.calls)

    async def work(desk: Desk) -> None:
        messages, _ = conversation(0)
        stream = await desk.ask(messages, stream=True)
        whole = await desk.ask(messages)

        streamed_text = await text_of(stream, is_streamed=True)
        assert streamed_text == "Let me look that up.\n\nIt is there."
        assert await text_of(whole, is_streamed=False) == "It is there."

    run(tmp_path, next_turn, work)


@pytest.mark.parametrize("first_text", ["", "One. "])
def test_a_streamed_answer_goes_on_after_each_of_several_recalls(
    tmp_path: Path, first_text: str
) -> None:
    texts = [first_text, "Two. ", "", "It is there."]

    def next_turn(body: dict[str, Any]) -> ModelTurn:
        recalls = sum(message["role"] == "tool" for message in body["messages"])
        calls = [(TOOL_NAME, {"id": str(recalls + 1)})] if recalls < 3 else []
        return ModelTurn(text=texts[recalls], calls=calls)

    async def work(desk: Desk) -> None:
        raw = await desk.ask(conversation(0)[0], stream=True)

        assert await text_of(raw, is_streamed=True) == "".join(texts)
        assert len(desk.model.bodies) == 4

    run(tmp_path, next_turn, work)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("recall_place", [0, 1])
def test_a_recall_beside_the_callers_own_tools_is_left_out_and_its_calls_are_delivered(
    tmp_path: Path, recall_place: int, *, is_streamed: bool
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("find", {"name": "lantern"})]
    calls.insert(recall_place, (TOOL_NAME, {"query": "lantern"}))
    find = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}

    async def work(desk: Desk) -> None:
        raw = await desk.ask(conversation(0)[0], tools=[find], stream=is_streamed)
        (receipt,) = await desk.receipts(raw.headers["x-request-id"]) if not is_streamed else [None]
        if is_streamed:
            choices = [c for chunk in [c async for c in raw.parse()] for c in chunk.choices]
            parts = [part for choice in choices for part in choice.delta.tool_calls or ()]
            names = [part.function.name for part in parts if part.function.name]
            arguments = "".join(part.function.arguments or "" for part in parts)
            assert {part.index for part in parts} == {0}
            finishes = [choice.finish_reason for choice in choices if choice.finish_reason]
        else:
            (choice,) = raw.parse().choices
            names = [call.function.name for call in choice.message.tool_calls]
            arguments = choice.message.tool_calls[0].function.arguments
            finishes = [choice.finish_reason]
            assert receipt is not None
            assert receipt.recalls == 0

        assert (names, finishes) == (["find"], ["tool_calls"])
        assert orjson.loads(arguments) == {"name": "lantern"}
        assert len(desk.model.bodies) == 1
        offered = [tool["function"]["name"] for tool in desk.model.bodies[0]["tools"]]
        assert offered == ["find", TOOL_NAME]

    run(tmp_path, lambda _: ModelTurn(calls=calls), work)


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object"}},
        {"n": 2},
        {"tool_choice": "none"},
    ],
)
def test_calls_whose_answer_has_a_form_of_its_own_are_compacted_without_the_tool(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    async def work(desk: Desk) -> None:
        raw = await desk.ask(conversation(0)[0], **fields)
        (body,) = desk.model.bodies

        assert raw.headers["x-thriftgate-compaction"].startswith("compacted")
        assert "tools" not in body
        assert TOOL_NAME not in words_of(body)

    run(tmp_path, recall_once, work)


def test_a_messages_call_recalls_through_chat(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        messages, place = conversation(0)
        client = anthropic.AsyncAnthropic(
            base_url=desk.url.removesuffix("/v1"), auth_token=desk.keys[0], max_retries=0
        )
        async with client.messages.stream(
            model="talker",
            max_tokens=900,
            system="You help.",
            messages=messages[1:],  # type: ignore[arg-type]
            extra_headers=FORCED,
        ) as stream:
            message = await stream.get_final_message()
        await client.close()

        assert [block.type for block in message.content] == ["text"]
        assert message.stop_reason == "end_turn"
        assert place in message.content[0].text  # type: ignore[union-attr]
        assert len(desk.model.bodies) == 2

    run(tmp_path, recall_once, work)
