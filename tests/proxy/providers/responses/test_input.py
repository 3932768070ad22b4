from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.responses.input import messages, runs
from proxy.providers.responses.reasoning import OpaqueParts, seal_parts
from tests.fakes.refusals import refusing

BLOCKS = [{"type": "thinking", "thinking": "hm", "signature": "s=="}, {"type": "redacted_thinking"}]
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": seal_parts(OpaqueParts(thinking_blocks=BLOCKS)),
}
FOREIGN = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAA"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
CUSTOM = {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "42"}
USER = {"role": "user", "content": "Hello"}

CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT_CUSTOM = {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}}


def test_a_text_is_one_user_message() -> None:
    assert messages(None, "Hello") == [USER]


def test_instructions_are_the_first_system_message() -> None:
    assert messages("Be kind.", [USER]) == [{"role": "system", "content": "Be kind."}, USER]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], []),
        ([USER, {"type": "message", "role": "developer", "content": "x"}],
         [USER, {"role": "developer", "content": "x"}]),
        ([{"type": None, "role": "system", "content": [{"type": "input_text", "text": "x"}]}],
         [{"role": "system", "content": [{"type": "text", "text": "x"}]}]),
        ([SAID], [{"role": "assistant", "content": "Hi"}]),
        ([{"role": "assistant", "content": "Hi"}], [{"role": "assistant", "content": "Hi"}]),
        ([SAID, SAID],
         [{"role": "assistant", "content": [{"type": "text", "text": "Hi"}] * 2}]),
        ([{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
         [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]),
        ([CALL, RESULT],
         [{"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
          {"role": "tool", "tool_call_id": "c1", "content": "42"}]),
        ([CUSTOM, {"type": "custom_tool_call_output", "call_id": "c2",
                   "output": [{"type": "input_text", "text": "42"}]}],
         [{"role": "assistant", "content": None, "tool_calls": [CHAT_CUSTOM]},
          {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "42"}]}]),
        ([THOUGHT, SAID, CALL, CUSTOM, USER],
         [{"role": "assistant", "content": "Hi", "thinking_blocks": BLOCKS,
           "tool_calls": [CHAT_CALL, CHAT_CUSTOM]}, USER]),
        ([THOUGHT, CALL, THOUGHT, CUSTOM],
         [{"role": "assistant", "content": None,
           "thinking_blocks": [*BLOCKS, {"type": "called", "id": "c1"}, *BLOCKS],
           "tool_calls": [CHAT_CALL, CHAT_CUSTOM]}]),
        ([USER, FOREIGN, SAID], [USER, {"role": "assistant", "content": "Hi"}]),
        ([THOUGHT | {"encrypted_content": seal_parts(OpaqueParts(reasoning_content="so"))}, SAID],
         [{"role": "assistant", "content": "Hi", "reasoning_content": "so"}]),
        ([USER, THOUGHT, USER], [USER, USER]),
    ],
)  # fmt: skip
def test_responses_items_become_chat_messages(items: Any, expected: Any) -> None:
    assert messages(None, items) == expected


def test_the_messages_say_where_reasoning_stood_among_the_other_items() -> None:
    (message,) = messages(None, [THOUGHT, SAID, CALL, THOUGHT, SAID])
    between = message["thinking_blocks"][2:-2]

    assert [place["type"] for place in between] == ["said", "called"]
    assert message["content"] == [{"type": "text", "text": "Hi"}] * 2


def test_words_after_a_call_are_told_to_have_stood_there() -> None:
    (message,) = messages(None, [THOUGHT, CALL, {"role": "assistant", "content": "Hi"}])

    assert [place["type"] for place in message["thinking_blocks"][2:]] == ["called", "said"]


def test_the_runs_are_those_of_the_messages() -> None:
    items = [USER, THOUGHT, USER, THOUGHT, SAID, CALL, RESULT]

    assert [[number for number, _ in run] for run in runs(items)] == [[0], [2], [3, 4, 5], [6]]
    assert len(runs(items)) == len(messages(None, items))


@pytest.mark.parametrize(
    ("instructions", "given_input", "code", "param"),
    [
        (None, None, "missing_required_parameter", "input"),
        (5, "x", "invalid_value", "instructions"),
        (None, 5, "invalid_value", "input"),
        (None, [5], "invalid_value", "input[0]"),
        (None, [USER, {"id": "msg_1"}], "unsupported_value", "input[1].type"),
        (None, [{"type": "item_reference", "id": "x"}], "unsupported_value", "input[0].type"),
        (None, [{"type": "web_search_call"}], "unsupported_value", "input[0].type"),
        (None, [{"role": "tool", "content": "x"}], "invalid_value", "input[0].role"),
        (None, [{"role": "user"}], "invalid_value", "input[0]"),
        (None, [USER | {"content": [{"type": "video"}]}], "invalid_value",
         "input[0].content[0].type"),
        (None, [USER | {"content": [{"type": "input_image", "file_id": "f"}]}], "invalid_value",
         "input[0].content[0]"),
        (None, [CALL | {"arguments": {}}], "invalid_value", "input[0].arguments"),
        (None, [RESULT | {"call_id": None}], "invalid_value", "input[0].call_id"),
        (None, [THOUGHT | {"encrypted_content": "tg1.x"}], "invalid_value", "input[0]"),
    ],
)  # fmt: skip
def test_an_untranslatable_item_names_its_place(
    instructions: object, given_input: object, code: str, param: str
) -> None:
    with refusing(400) as caught:
        messages(instructions, given_input)

    assert (caught.value.code, caught.value.param) == (code, param)


def test_a_reference_is_refused_with_the_way_to_fix_it() -> None:
    with refusing(400, match="send the items themselves, with `store` false"):
        messages(None, [{"type": "item_reference", "id": "msg_1"}])


ITEMS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.sampled_from([USER, SAID, CALL, CUSTOM, RESULT, THOUGHT, FOREIGN]), max_size=8
)


@given(ITEMS, st.sampled_from([USER, RESULT]), ITEMS)
def test_a_conversation_that_goes_on_keeps_the_messages_it_had(
    before: Any, last: Any, after: Any
) -> None:
    had = messages("Be kind.", [*before, last])

    assert messages("Be kind.", [*before, last, *after])[: len(had)] == had


@given(ITEMS)
def test_every_call_and_every_word_is_said_once_and_in_order(items: Any) -> None:
    chat = messages(None, items)
    calls = [call["id"] for message in chat for call in message.get("tool_calls", ())]

    assert calls == [item["call_id"] for item in items if item in (CALL, CUSTOM)]
    assert [m for m in chat if m["role"] == "user"] == [item for item in items if item == USER]


BLOCK = {"type": "compaction", "content": "so far", "signature": "s=="}
COMPACTED = {
    "type": "compaction",
    "id": "cmp_1",
    "encrypted_content": seal_parts(OpaqueParts(thinking_blocks=[BLOCK])),
}


def test_a_compaction_sealed_here_is_a_message_even_alone() -> None:
    alone = {"role": "assistant", "content": None, "thinking_blocks": [BLOCK]}

    assert messages(None, [USER, COMPACTED, USER], compacts=True) == [USER, alone, USER]
    assert messages(None, [COMPACTED, THOUGHT, SAID], compacts=True) == [
        {"role": "assistant", "content": "Hi", "thinking_blocks": [BLOCK, *BLOCKS]}
    ]


@pytest.mark.parametrize(
    ("item", "param"),
    [
        (COMPACTED | {"encrypted_content": "gAAAA"}, "input[0]"),
        (COMPACTED | {"encrypted_content": "tg1.x"}, "input[0]"),
        (COMPACTED | {"encrypted_content": None}, "input[0].encrypted_content"),
        ({"type": "compaction_trigger"}, "input[0].type"),
    ],
)
def test_a_compaction_that_cannot_be_read_is_refused(item: Any, param: str) -> None:
    with refusing(400) as caught:
        messages(None, [item], compacts=True)

    assert caught.value.param == param


def test_a_compaction_is_refused_where_no_model_reads_it() -> None:
    with refusing(400, match="`compaction` is not supported"):
        messages(None, [COMPACTED])
