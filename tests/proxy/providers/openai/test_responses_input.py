"""Messages of a chat call as the input items of a Responses call."""

from typing import Any

import msgspec
import pytest
from openai.types.responses import ResponseInputParam
from pydantic import TypeAdapter

from proxy.providers.chat.block_order import BlockOrder
from proxy.providers.chat.chat_body import ChatMessage
from proxy.providers.messages.signatures import phase_signature, reasoning_signature
from proxy.providers.openai.responses_input import input_items
from tests.fakes.refusals import refusing
from tests.fakes.responses_answers import THOUGHT

MAKER = "openai/gpt-x"
LATER = {**THOUGHT, "id": "rs_2"}
CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}},
    {"id": "call_2", "type": "custom", "custom": {"name": "patch", "input": "x"}},
]
RESULTS: list[dict[str, Any]] = [
    {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "done"}]},
]


def items(*messages: dict[str, Any], maker: str = MAKER) -> list[dict[str, Any]]:
    turns = msgspec.json.decode(msgspec.json.encode(messages), type=list[ChatMessage])
    items_made = input_items(turns, maker)
    read = msgspec.json.decode(msgspec.json.encode(items_made))
    TypeAdapter(ResponseInputParam).validate_python(read)
    return list(read)


def sealed_block(item: dict[str, Any]) -> dict[str, str]:
    return {"type": "thinking", "thinking": "", "signature": reasoning_signature(item, MAKER)}


def test_parts_and_their_breakpoints_go_along():
    point = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    image = {"type": "image_url", "image_url": {"url": "http://a", "detail": "low"}}
    file = {"type": "file", "file": {"file_data": "data:,x", "filename": "a"}}
    parts = [{"type": "text", "text": "Hi", **point}, image, file]
    input_items = items(
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}
    )

    assert input_items == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Hi", **point},
                {"type": "input_image", "image_url": "http://a", "detail": "low"},
                {"type": "input_file", "file_data": "data:,x", "filename": "a"},
            ],
        },
    ]


def test_calls_and_results_are_items_of_their_own():
    answer = {"role": "assistant", "content": "I look.", "tool_calls": CALLS}

    assert items({"role": "user", "content": "Hi"}, answer, *RESULTS)[1:] == [
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"a": 1}'},
        {"type": "custom_tool_call", "call_id": "call_2", "name": "patch", "input": "x"},
        {"type": "function_call_output", "call_id": "call_1", "output": "seen"},
        {
            "type": "custom_tool_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_text", "text": "done"}],
        },
    ]


def test_sealed_reasoning_stands_where_it_stood():
    order = BlockOrder()
    blocks = order.entries_for_block(sealed_block(THOUGHT))
    order.note_words("I look.")
    blocks += order.entries_for_block(sealed_block(LATER))
    order.note_call("call_1")
    answer = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": CALLS[:1],
        "thinking_blocks": blocks + order.final_entries(),
    }
    input_items = items({"role": "user", "content": "Hi"}, answer, RESULTS[0])

    assert [item.get("id") or item.get("role") or item["type"] for item in input_items] == [
        "user", "rs_1", "assistant", "rs_2", "function_call", "function_call_output",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        {"content": "", "tool_calls": []},
        {"content": "Other words", "thinking_blocks": [{"type": "said", "length": 3}]},
    ],
)
def test_reasoning_that_nothing_follows_or_that_lost_its_place_is_left_out(answer):
    blocks = [*answer.get("thinking_blocks", ()), sealed_block(THOUGHT)]
    input_items = items({"role": "assistant", **answer, "thinking_blocks": blocks})

    assert "reasoning" not in {item.get("type") for item in input_items}


def _phase_block(phase: str, maker: str = MAKER) -> dict[str, str]:
    return {"type": "thinking", "thinking": "", "signature": phase_signature(phase, maker)}


def phased_answer(maker: str = MAKER) -> dict[str, Any]:
    """An answer of a comment, a call and the words that end it."""
    order = BlockOrder()
    blocks = order.entries_for_block(sealed_block(THOUGHT))
    blocks += order.entries_for_block(_phase_block("commentary", maker))
    order.note_words("I look.")
    order.note_call("call_1")
    blocks += order.entries_for_block(_phase_block("final_answer", maker))
    order.note_words("Seen.")
    texts = [{"type": "text", "text": text} for text in ("I look.", "Seen.")]
    blocks += order.final_entries()
    answer = {"role": "assistant", "content": texts, "thinking_blocks": blocks}
    return {**answer, "tool_calls": CALLS[:1]}


def test_messages_keep_their_phases():
    input_items = items(phased_answer(), RESULTS[0])

    assert [
        (item.get("type"), item.get("content"), item.get("phase")) for item in input_items[:-1]
    ] == [
        ("reasoning", None, None),
        (None, "I look.", "commentary"),
        ("function_call", None, None),
        (None, "Seen.", "final_answer"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        phased_answer("openai/other"),
        {**phased_answer(), "content": "Edited."},
        {**phased_answer(), "thinking_blocks": []},
        {
            **phased_answer(),
            "thinking_blocks": [{"type": "phase", "maker": "openai/other", "phase": "commentary"}],
        },
        {
            **phased_answer(),
            "thinking_blocks": [{"type": "phase", "maker": MAKER, "phase": ["commentary"]}],
        },
    ],
)
def test_a_message_goes_without_a_phase_of_another_model_or_of_other_words(answer: dict[str, Any]):
    assert not any("phase" in item for item in items(answer, RESULTS[0]))


def test_a_phase_that_no_message_follows_brings_nothing_in():
    order = BlockOrder()
    blocks = order.entries_for_block(_phase_block("commentary"))
    order.note_call("call_1")
    answer = {"role": "assistant", "content": None, "tool_calls": CALLS[:1]}
    input_items = items({**answer, "thinking_blocks": blocks + order.final_entries()}, RESULTS[0])

    assert [item["type"] for item in input_items] == ["function_call", "function_call_output"]
    assert not any("phase" in item for item in input_items)


def test_reasoning_that_a_caller_repeats_goes_once() -> None:
    """An agent that copies a turn into a summary or a second branch sends its seal twice."""
    twice = {"role": "assistant", "content": "Hi", "thinking_blocks": [sealed_block(THOUGHT)] * 2}
    input_items = items(twice, {"role": "user", "content": "So?"}, twice)

    assert [item.get("id") or item["role"] for item in input_items] == [
        "rs_1", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_reasoning_of_another_model_is_left_out():
    answer = {"role": "assistant", "content": "Hi", "thinking_blocks": [sealed_block(THOUGHT)]}

    assert len(items(answer)) == 2
    assert len(items(answer, maker="openai/other")) == 1


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "function", "content": "x"}, "role"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "content"),
        ({"role": "assistant", "content": [{"type": "image_url"}]}, "text alone"),
        ({"role": "assistant", "tool_calls": [{"id": "a", "type": "function"}]}, "tool_calls"),
        ({"role": "tool", "content": "seen"}, "tool_call_id"),
    ],
)
def test_a_part_that_cannot_be_said_is_refused_by_its_name(message, param):
    with refusing(400, match=param):
        items(message)
