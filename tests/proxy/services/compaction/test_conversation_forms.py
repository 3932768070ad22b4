"""Messages and Responses conversations: compacted, and every byte that stays is the caller's."""

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.compact import compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionPolicy, RelativePrices
from compaction.reading.message import CannotCompactError
from proxy.calls.eligibility.eligibility import RESPONSES
from proxy.prefix.prompts.prompt import parse_prompt
from proxy.records.call import MESSAGES, Call
from proxy.services.compaction.chat_body import CompactedCall, compact_call
from proxy.services.compaction.conversation_forms import chat_form
from tests.fakes.call_dependencies import call
from tests.proxy.services.compaction.compaction_fixtures import task

Json = dict[str, Any]
_FORCE = CompactionPolicy(
    force=True, least=300, prices=RelativePrices(read=0.1, write=1.25), drops_signed=True
)
_POLITE = "Everything is just as it should be, and there is nothing to be done about it. " * 8


def thinking(turn: int) -> Json:
    return {"type": "thinking", "thinking": f"hm {turn}", "signature": f"sig{turn}"}


def order(turn: int) -> str:
    rows = [{"item": f"tea {n}", "count": n, "ready": True} for n in range(12)]
    return orjson.dumps(
        {"order": f"ORD-{turn}77-X", "rows": rows}, option=orjson.OPT_INDENT_2
    ).decode()


def messages_body(turns: int, **more: Any) -> Json:
    """A desk over the Messages API: it thinks, looks two things up at once, and answers."""
    messages: list[Json] = []
    for turn in range(turns):
        content = [{"type": "text", "text": f"Where is order ORD-{turn}77-X?"}]
        calls = [
            {"type": "tool_use", "id": f"tu{turn}{n}", "name": "get_order", "input": {"id": n}}
            for n in range(2)
        ]
        results = [
            {"type": "tool_result", "tool_use_id": f"tu{turn}{n}", "content": order(turn)}
            for n in range(2)
        ]
        reply = [thinking(turn), {"type": "text", "text": f"It is at stop {turn}. {_POLITE}"}]
        messages += [
            {"role": "user", "content": content},
            {"role": "assistant", "content": [thinking(turn), *calls]},
            {"role": "user", "content": [*results, {"type": "text", "text": "Go on."}]},
            {"role": "assistant", "content": reply},
        ]
    last = [{"type": "text", "text": "Thanks.", "cache_control": {"type": "ephemeral"}}]
    messages.append({"role": "user", "content": last})
    system = [{"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral"}}]
    return {"model": "m", "max_tokens": 900, "system": system, "messages": messages, **more}


def responses_body(turns: int, **more: Any) -> Json:
    """The same desk over the Responses API, kept by the caller."""
    items: list[Json] = []
    for turn in range(turns):
        question = {"type": "input_text", "text": f"Where is order ORD-{turn}77-X?"}
        reasoning = {
            "type": "reasoning",
            "id": f"rs{turn}",
            "summary": [],
            "encrypted_content": "x",
        }
        items += [
            {"type": "message", "role": "user", "content": [question]},
            reasoning,
            {
                "type": "function_call",
                "call_id": f"c{turn}",
                "name": "get_order",
                "arguments": f'{{"id":{turn}}}',
            },
            {"type": "function_call_output", "call_id": f"c{turn}", "output": order(turn)},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": f"It is at stop {turn}. {_POLITE}"}],
            },
        ]
    items.append({"role": "user", "content": "Thanks."})
    return {"model": "m", "instructions": "You help.", "input": items, "store": False, **more}


def request(body: Json) -> Call:
    return call(orjson.dumps(body), endpoint=MESSAGES if "messages" in body else RESPONSES)


def compacted_call(body: Json, policy: CompactionPolicy = _FORCE) -> CompactedCall:
    return compact_call(task(request(body), policy=policy), compact, CompactionMemory())


def sent_list(result: CompactedCall) -> list[Json]:
    assert result.result.sent is not None
    sent = orjson.loads(result.result.sent.body)
    return sent["messages"] if "messages" in sent else sent["input"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("body", [messages_body(14), responses_body(14)])
def test_old_turns_become_facts_and_the_rest_stays_byte_for_byte(body: Json):
    came = orjson.dumps(body)
    result = compacted_call(body)
    assert result.result.sent is not None
    sent = result.result.sent.body

    assert result.result.is_compacted
    assert len(sent) < 0.6 * len(came)
    name = "messages" if "messages" in body else "input"
    tail = orjson.dumps(body[name][-2:])[1:-1]
    assert tail in sent
    assert {k: v for k, v in orjson.loads(sent).items() if k != name} == {
        k: v for k, v in body.items() if k != name
    }


def test_calls_and_results_of_messages_stay_pairs():
    messages = sent_list(compacted_call(messages_body(14)))

    for before, after in pairwise(messages):
        calls = [b["id"] for b in blocks_of(before) if b["type"] == "tool_use"]
        answers = [b["tool_use_id"] for b in blocks_of(after) if b["type"] == "tool_result"]
        assert calls == answers
    assert messages[0]["role"] == "user"


def blocks_of(message: Json) -> list[Json]:
    return message["content"] if isinstance(message["content"], list) else []


def test_calls_outputs_and_reasoning_of_responses_go_or_stay_with_their_turn():
    items = sent_list(compacted_call(responses_body(14)))

    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    thoughts = [item["id"] for item in items if item.get("type") == "reasoning"]
    assert calls == outputs
    assert [f"c{name.removeprefix('rs')}" for name in thoughts] == calls


def test_thinking_of_turns_that_stay_is_untouched():
    body = messages_body(14)
    blocks = [block for m in sent_list(compacted_call(body)) for block in blocks_of(m)]

    own = [block for m in body["messages"] for block in blocks_of(m)]
    signed = [block for block in blocks if block["type"] == "thinking"]
    assert signed
    assert all(block in own for block in signed)


def test_a_trimmed_result_keeps_what_stands_beside_its_text():
    body = messages_body(1)
    block = body["messages"][2]["content"][0]
    block |= {"is_error": True, "cache_control": {"type": "ephemeral"}}
    result = compacted_call(body, CompactionPolicy(drops_signed=True))

    sent = sent_list(result)[2]["content"][0]
    assert len(sent["content"]) < len(block["content"])
    assert {**sent, "content": ""} == {**block, "content": ""}


@given(st.integers(0, 8), st.booleans())
def test_unchanged_messages_are_restored_byte_for_byte(turns: int, of_messages: bool):  # noqa: FBT001
    body = messages_body(turns) if of_messages else responses_body(turns)
    raw = orjson.dumps(body)
    prompt = parse_prompt(raw, is_native=of_messages)
    form = chat_form(prompt)
    chat = compact(form.raws, CompactionPolicy(least=10**9), memory=CompactionMemory())
    if chat.changed:
        return  # results were trimmed

    assert form.caller_messages(chat) == prompt.messages


_USER: Json = {"role": "user", "content": "a"}
_LATE_SYSTEM = [*messages_body(9)["messages"], {"role": "system", "content": "x"}]


@pytest.mark.parametrize(
    "body",
    [
        responses_body(9, previous_response_id="resp_1"),
        responses_body(9, conversation="conv_1"),
        responses_body(9) | {"input": [{"type": "item_reference", "id": "msg_1"}]},
        responses_body(0) | {"input": [_USER, {"type": "computer_call", "id": "c"}]},
        messages_body(9) | {"messages": _LATE_SYSTEM},
    ],
)
def test_a_conversation_that_its_provider_keeps_or_checks_in_place_is_left_alone(body: Json):
    with pytest.raises(CannotCompactError, match="api"):
        compacted_call(body)


@pytest.mark.parametrize(
    "body",
    [
        messages_body(9, context_management={"edits": []}),
        responses_body(9, context_management=[]),
    ],
)
def test_a_conversation_that_its_provider_compacts_is_left_alone(body: Json):
    assert compacted_call(body).result.why == "native"
