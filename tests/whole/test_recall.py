"""A whole gateway whose model recalls what compaction took out, in each API, read by its SDK."""

from pathlib import Path
from typing import Any

import pytest

from compaction.recall.tool_index import TOOL_NAME
from proxy.records.receipt import Outcome
from tests.fakes.model_wires import ModelTurn, prompt_tokens
from tests.fakes.recall_apis import (
    APIS,
    Api,
    ChatInMessages,
    Messages,
    MessagesInChat,
    Responses,
    ResponsesInChat,
    ResponsesInMessages,
    history,
    offers_recall,
    recalled_texts,
    words_of,
)
from tests.fakes.recall_desk import CONVERSATIONS, Desk, conversation, recall_once, run

MORE = [{"role": "assistant", "content": "{}"}, {"role": "user", "content": "As JSON."}]
in_each_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
whole_and_streamed = pytest.mark.parametrize("is_streamed", [False, True])


@in_each_api
@pytest.mark.parametrize("first_number", range(0, 1_000, 200))
def test_each_of_500_questions_about_something_taken_out_is_answered_by_one_recall(
    tmp_path: Path, first_number: int, api: Api
) -> None:
    async def work(desk: Desk) -> None:
        number, right = first_number, 0
        call_ids: list[str] = []
        while len(call_ids) < CONVERSATIONS:
            messages, place = conversation(number)
            is_streamed, number = number % 2 == 0, number + 1
            answer = await desk.ask(messages, api, stream=is_streamed)
            first, second = desk.model.bodies
            desk.model.bodies.clear()
            assert history(second)[: len(history(first))] == history(first)
            assert (answer.calls, answer.end) == ([], api.stopped)
            if place not in words_of(first):
                right += place in answer.text
                call_ids.append(answer.call_id)
        receipts = [(await desk.receipts(call_id))[0] for call_id in call_ids]

        assert right == CONVERSATIONS
        assert number < first_number + 2 * CONVERSATIONS
        assert {receipt.recalls for receipt in receipts} == {1}
        assert all(0 < receipt.recalled_tokens <= 8_000 for receipt in receipts)

    run(tmp_path, recall_once, work)


@in_each_api
@whole_and_streamed
def test_a_recalled_calls_receipt_has_the_usage_and_cost_of_all_rounds(
    tmp_path: Path, api: Api, *, is_streamed: bool
) -> None:
    async def work(desk: Desk) -> None:
        answer = await desk.ask(conversation(0)[0], api, stream=is_streamed)
        (receipt,) = await desk.receipts(answer.call_id)
        prompts = [prompt_tokens(body) for body in desk.model.bodies]

        assert receipt.usage is not None
        assert receipt.usage.prompt_tokens == sum(prompts)
        assert answer.prompt_tokens in {prompts[1], None}
        assert (answer.prompt_tokens is None) is (is_streamed and api.name == "chat")
        generated = receipt.usage.generated_tokens
        assert receipt.cost_nanos == 1_000 * sum(prompts) + 4_000 * generated
        assert (receipt.recalls, receipt.outcome, receipt.final) == (1, Outcome.ANSWERED, True)
        assert receipt.compaction == "facts+recall"

    run(tmp_path, recall_once, work)


@in_each_api
def test_text_before_a_recall_goes_on_in_a_stream_and_is_left_out_of_a_whole_answer(
    tmp_path: Path, api: Api
) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        answer = recall_once(body)
        is_first = bool(answer.calls)
        text = "Let me look that up." if is_first else "It is there."
        return ModelTurn(text=text, calls=answer.calls)

    async def work(desk: Desk) -> None:
        messages, _ = conversation(0)
        streamed = await desk.ask(messages, api, stream=True)
        whole = await desk.ask(messages, api)

        space = "\n\n" if api.name == "chat" else ""  # elsewhere they are parts of their own
        assert streamed.text == f"Let me look that up.{space}It is there."
        assert whole.text == "It is there."
        assert "Let me look that up." in str(history(desk.model.bodies[1]))

    run(tmp_path, next_turn, work)


@in_each_api
@pytest.mark.parametrize("first_text", ["", "One. "])
def test_a_streamed_answer_goes_on_after_each_of_several_recalls(
    tmp_path: Path, first_text: str, api: Api
) -> None:
    texts = [first_text, "Two. ", "", "It is there."]

    def next_turn(body: dict[str, Any]) -> ModelTurn:
        rounds = len(recalled_texts(body))
        calls = [(TOOL_NAME, {"id": str(rounds + 1)})] if rounds < 3 else []
        return ModelTurn(text=texts[rounds], calls=calls)

    async def work(desk: Desk) -> None:
        answer = await desk.ask(conversation(0)[0], api, stream=True)

        assert answer.text == "".join(texts)
        assert len(desk.model.bodies) == 4

    run(tmp_path, next_turn, work)


@in_each_api
@whole_and_streamed
@pytest.mark.parametrize("recall_place", [0, 1, 2])
def test_a_recall_beside_the_callers_own_tools_is_left_out_and_its_calls_are_delivered(
    tmp_path: Path, recall_place: int, api: Api, *, is_streamed: bool
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("find", {"name": "lantern"}),
        ("find", {"name": "whistle"}),
    ]
    own = list(calls)
    calls.insert(recall_place, (TOOL_NAME, {"query": "lantern"}))

    async def work(desk: Desk) -> None:
        answer = await desk.ask(conversation(0)[0], api, tools=["find"], stream=is_streamed)
        (receipt,) = await desk.receipts(answer.call_id)

        assert (answer.calls, answer.end) == (own, api.called)
        assert (receipt.recalls, len(desk.model.bodies)) == (0, 1)
        tools = [tool.get("function", tool)["name"] for tool in desk.model.bodies[0]["tools"]]
        assert tools == ["find", TOOL_NAME]

    run(tmp_path, lambda _: ModelTurn(calls=calls), work)


@in_each_api
@whole_and_streamed
def test_parallel_recalls_are_answered_together(
    tmp_path: Path, api: Api, *, is_streamed: bool
) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        if texts := recalled_texts(body):
            return ModelTurn(text=f"{len(texts)} texts")
        return ModelTurn(calls=[(TOOL_NAME, {"id": "1"}), (TOOL_NAME, {"id": "2"})])

    async def work(desk: Desk) -> None:
        answer = await desk.ask(conversation(0)[0], api, stream=is_streamed)

        assert answer.text == "2 texts"
        assert len(desk.model.bodies) == 2

    run(tmp_path, next_turn, work)


@pytest.mark.parametrize("api", [Messages(), Responses()], ids=lambda api: api.name)
@whole_and_streamed
def test_thinking_goes_back_signed_and_the_caller_gets_that_of_the_last_round(
    tmp_path: Path, api: Api, *, is_streamed: bool
) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        rounds = len(recalled_texts(body))
        text = "It is there." if rounds else ""
        calls = [] if rounds else [(TOOL_NAME, {"id": "1"})]
        return ModelTurn(thinking=f"Thought {rounds} at length.", text=text, calls=calls)

    async def work(desk: Desk) -> None:
        answer = await desk.ask(conversation(0)[0], api, stream=is_streamed)
        sent_back = str(history(desk.model.bodies[1]))

        assert answer.text == "It is there."
        assert "Thought 1 at length." in str(answer.thinking)
        assert "Thought 0" not in str(answer)
        assert len(answer.thinking) == 1
        assert "signed 1: Thought 0 at length." in sent_back or (
            "sealed: Thought 0 at length." in sent_back
        )

    run(tmp_path, next_turn, work)


@whole_and_streamed
def test_a_model_that_thinks_once_a_turn_keeps_that_thinking_before_the_callers_tools(
    tmp_path: Path, *, is_streamed: bool
) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        if recalled_texts(body):
            return ModelTurn(calls=[("find", {"name": "lantern"})])
        return ModelTurn(thinking="Hm.", calls=[(TOOL_NAME, {"id": "1"})])

    async def work(desk: Desk) -> None:
        messages = conversation(0)[0]
        answer = await desk.ask(messages, Messages(), tools=["find"], stream=is_streamed)

        assert answer.kinds == ["thinking", "tool_use"]
        assert answer.thinking[0]["signature"] == "signed 1: Hm."

    run(tmp_path, next_turn, work)


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        (APIS[0], {"n": 2}),
        (APIS[0], {"tool_choice": "none"}),
        (Responses(), {"store": True}),
    ],
)
def test_calls_whose_answer_is_not_the_gateways_to_go_on_from_are_compacted_without_the_tool(
    tmp_path: Path, api: Api, fields: dict[str, Any]
) -> None:
    async def work(desk: Desk) -> None:
        answer = await desk.ask(conversation(0)[0], api, **fields)
        (body,) = desk.model.bodies

        assert answer.headers["x-thriftgate-compaction"].startswith("compacted")
        assert not offers_recall(body)
        assert TOOL_NAME not in words_of(body)

    run(tmp_path, recall_once, work)


@pytest.mark.parametrize(
    ("api", "form"),
    [
        (APIS[0], {"response_format": {"type": "json_object"}}),
        (Responses(), {"text": {"format": {"type": "json_object"}}}),
    ],
    ids=["chat", "responses"],
)
def test_a_call_with_a_form_of_its_own_keeps_the_prefix_of_its_conversation(
    tmp_path: Path, api: Api, form: dict[str, Any]
) -> None:
    async def work(desk: Desk) -> None:
        messages = conversation(0)[0]
        await desk.ask(messages, api)
        await desk.ask([*messages, *MORE], api, **form)
        first, second = desk.model.bodies

        assert second["tools"] == first["tools"]
        assert (first.get("tool_choice"), second["tool_choice"]) == (None, "none")
        assert history(second)[: len(history(first))] == history(first)

    run(tmp_path, lambda _: ModelTurn(text="{}"), work)


@pytest.mark.parametrize(
    "api",
    [ChatInMessages(), MessagesInChat(), ResponsesInChat(), ResponsesInMessages()],
    ids=lambda api: api.name,
)
@whole_and_streamed
def test_a_call_recalls_where_its_model_is_asked_in_another_api(
    tmp_path: Path, api: Api, *, is_streamed: bool
) -> None:
    def next_turn(body: dict[str, Any]) -> ModelTurn:
        answer = recall_once(body)
        return ModelTurn(thinking="Hm.", text=answer.text, calls=answer.calls)

    async def work(desk: Desk) -> None:
        messages, place = conversation(0)
        answer = await desk.ask(messages, api, stream=is_streamed)
        first, second = desk.model.bodies

        assert place in answer.text
        assert (answer.end, answer.calls) == (api.stopped, [])
        assert history(second)[: len(history(first))] == history(first)
        assert ("signed 1: Hm." in str(second)) is (api.model == "thinker")

    run(tmp_path, next_turn, work)
