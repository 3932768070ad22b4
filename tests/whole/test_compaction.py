"""A whole gateway that compacts long conversations, before a whole lab."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import openai
import pytest

from compaction.policy import CompactionMode
from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.plain_http import PLAIN

RULE = "Never promise a refund before the order was looked up."
ASKED = "x-thriftgate-compaction"
WORDS = ("the", "parcel", "was", "packed", "with", "care", "and", "left", "our", "house", "early")


@pytest.fixture
def compaction(start_gateway: Callable[..., GatewayFixture]) -> GatewayFixture:
    """A gateway that compacts every feature's conversations, none left to compare with."""
    return start_gateway(compaction=CompactionMode.FACTS, control_share=0.0)


@pytest.fixture
def ask(compaction: GatewayFixture) -> Iterator[Callable[..., Any]]:
    with closing(
        openai.OpenAI(base_url=compaction.url, api_key=compaction.key, max_retries=0)
    ) as sdk_client:

        def ask_model(messages: list[Any], model: str = "gpt-lab", header: str = "") -> Any:
            return sdk_client.chat.completions.with_raw_response.create(
                model=model, messages=messages, extra_headers={ASKED: header} if header else {}
            )

        yield ask_model


def chatty() -> str:
    """Return what an assistant says at length in every turn."""
    return " ".join(WORDS[(7 * n + n * n) % len(WORDS)] for n in range(500)) + "."


def looked_up(number: int) -> list[dict[str, Any]]:
    """A turn: an order is looked up, and told."""
    items = [{"sku": f"S-{number}-{n}", "price": 7 * n, "note": "kept dry " * 4} for n in range(9)]
    arguments = json.dumps({"order_id": f"#W{number}"})
    function = {"name": "get_order", "arguments": arguments}
    return [
        {"role": "user", "content": f"And what of order #W{number}, which I made in May?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
        },
        {
            "role": "tool",
            "tool_call_id": f"call_{number}",
            "content": json.dumps({"order": f"#W{number}", "items": items}),
        },
        {"role": "assistant", "content": f"Order #W{number} has nine items. {chatty()}"},
    ]


def conversation(turns: int) -> list[dict[str, Any]]:
    messages = [{"role": "system", "content": RULE}]
    for number in range(turns):
        messages += looked_up(1_000 + number)
    return [*messages, {"role": "user", "content": "Thank you. Which was the first?"}]


@pytest.mark.parametrize("model", ["gpt-lab", "claude-lab"])
def test_a_conversation_is_answered_compacted_from_its_first_call_to_its_last(
    compaction: GatewayFixture, ask: Callable[..., Any], model: str
) -> None:
    receipts = []
    for turns in range(1, 31):
        answer = ask(conversation(turns), model)
        (receipt,) = compaction.receipts(answer.headers["x-request-id"])
        receipts.append(receipt)

    assert {receipt.outcome for receipt in receipts} == {Outcome.ANSWERED}
    assert {receipt.compaction for receipt in receipts} == {"facts"}
    last = receipts[-1]
    assert last.compacted
    assert last.tokens_before is not None
    assert last.tokens_after is not None
    assert last.tokens_after * 2 < last.tokens_before
    assert last.usage is not None
    assert last.usage.prompt_tokens < last.tokens_before
    assert len({receipt.conversation for receipt in receipts} - {""}) == 1
    assert 0 < sum(receipt.reset for receipt in receipts) < 8
    assert sum(receipt.compaction_nanos or 0 for receipt in receipts) > 0


def test_a_caller_may_force_try_and_refuse_it(ask: Callable[..., Any]) -> None:
    messages = conversation(12)
    forced, dry = ask(messages, header="force"), ask(messages, header="dry-run")
    off, wrong = ask(messages, header="off"), ask(messages, header="of")

    assert forced.headers[ASKED].startswith("compacted; reason=")
    assert dry.headers[ASKED].startswith("unmodified; reason=dry_run: ")
    assert ASKED not in off.headers
    assert "not 'of'" in wrong.headers["x-thriftgate-notes"]


def test_forcing_a_first_call_says_what_was_compacted_and_why_or_that_nothing_was(
    ask: Callable[..., Any],
) -> None:
    long, short = ask(conversation(10), header="force"), ask(conversation(0), header="force")
    statements = long.headers[ASKED].split("; ")

    assert statements[:3] == ["compacted", "reason=forced", "no-more=nothing_to_compact"]
    assert short.headers[ASKED].startswith("unmodified; reason=nothing_to_compact; ")


def test_a_clients_own_request_to_compact_goes_as_it_came(ask: Callable[..., Any]) -> None:
    wish = {"role": "user", "content": "/compact"}

    assert ask([*conversation(12), wish]).headers[ASKED] == "unmodified; reason=client"


def as_messages(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The conversation as a body of the Messages API."""
    turns = []
    for message in messages[1:]:
        if message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
            turns.append({"role": "user", "content": [block | {"content": message["content"]}]})
        elif "tool_calls" in message:
            (call,) = message["tool_calls"]
            arguments = json.loads(call["function"]["arguments"])
            used = {"type": "tool_use", "id": call["id"], "name": "get_order", "input": arguments}
            turns.append({"role": "assistant", "content": [used]})
        else:
            turns.append(message)
    return {"model": "claude-lab", "max_tokens": 200, "system": RULE, "messages": turns}


def as_items(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The conversation as a body of the Responses API, kept by its caller."""
    items = []
    for message in messages[1:]:
        if message["role"] == "tool":
            item = {"type": "function_call_output", "call_id": message["tool_call_id"]}
            items.append(item | {"output": message["content"]})
        elif "tool_calls" in message:
            (call,) = message["tool_calls"]
            items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
        else:
            items.append(message)
    return {"model": "gpt-lab", "instructions": RULE, "input": items, "store": False}


@pytest.mark.parametrize(
    ("api", "request_fields"), [("messages", as_messages), ("responses", as_items)]
)
def test_a_conversation_over_another_api_is_compacted_too(
    compaction: GatewayFixture, api: str, request_fields: Callable[..., dict[str, Any]]
) -> None:
    receipts = []
    for turns in range(1, 31):
        answer = httpx.post(
            f"{compaction.url}/{api}",
            json=request_fields(conversation(turns)),
            headers={"authorization": f"Bearer {compaction.key}"},
            verify=PLAIN,
        )
        (receipt,) = compaction.receipts(answer.headers["x-request-id"])
        receipts.append(receipt)

    assert {receipt.outcome for receipt in receipts} == {Outcome.ANSWERED}
    last = receipts[-1]
    assert last.compacted
    assert last.tokens_before is not None
    assert last.tokens_after is not None
    assert last.tokens_after * 2 < last.tokens_before
    assert last.usage is not None
    assert last.usage.prompt_tokens < last.tokens_before
    assert 0 < sum(receipt.reset for receipt in receipts) < 8
