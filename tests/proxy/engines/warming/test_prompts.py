"""Bodies that warm: each begins exactly as the call will that it is for."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.call_prompt import call_prompt
from proxy.engines.warming.prompts import SystemPrompt, next_turn, system_prompt

SYSTEM = {"role": "system", "content": "You are a clerk."}
USER = {"role": "user", "content": "Hello"}
CHAT, RESPONSES, MESSAGES = "chat/completions", "responses", "messages"
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def body(*messages: Any, **fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "messages": messages, **fields})


def test_the_system_prompt_is_all_that_stands_before_the_first_message_of_a_user():
    developer = {"role": "developer", "content": "Be brief."}
    prompt = system_prompt(
        body(SYSTEM, developer, USER, SYSTEM, temperature=0.5, tools=TOOLS), CHAT
    )

    assert prompt is not None
    assert orjson.loads(prompt.body) == {
        "model": "m",
        "messages": [SYSTEM, developer, {"role": "user", "content": "."}],
        "temperature": 0.5,
        "tools": TOOLS,
    }


def test_the_same_prompt_has_one_name_whatever_follows_and_other_tools_another():
    names = [
        prompt.digest
        for written in (body(SYSTEM, USER), body(SYSTEM, {**USER, "content": "Bye"}, user="u"))
        if (prompt := system_prompt(written, CHAT)) is not None
    ]
    other = system_prompt(body(SYSTEM, USER, tools=TOOLS), CHAT)

    assert len(names) == 2
    assert names[0] == names[1]
    assert other is not None
    assert other.digest != names[0]


@pytest.mark.parametrize(
    "sent", [b"{", b"[]", body(USER), body(), b'{"messages":3}', b'{"messages":[3]}', b"{}"]
)
def test_a_body_without_a_system_prompt_has_none_to_warm(sent: bytes):
    assert system_prompt(sent, CHAT) is None


def test_the_next_turn_holds_the_answer_and_stands_in_for_what_is_not_known():
    answer = {"role": "assistant", "content": "Good day"}
    turn = orjson.loads(next_turn(body(SYSTEM, USER), orjson.dumps(answer), CHAT) or b"")

    assert turn["messages"] == [SYSTEM, USER, answer, {"role": "user", "content": "."}]


def test_the_next_turn_after_tool_calls_begins_with_their_results():
    calls = [{"id": call_id, "type": "function", "function": {}} for call_id in "ab"]
    answer = {"role": "assistant", "content": None, "tool_calls": calls}
    turn = orjson.loads(next_turn(body(USER), orjson.dumps(answer), CHAT) or b"")

    assert turn["messages"][2:] == [
        {"role": "tool", "tool_call_id": call_id, "content": ""} for call_id in "ab"
    ]


def test_the_callers_place_in_a_queue_is_not_the_warming_calls():
    turn = next_turn(body(USER, priority=-9, nvext={}), b'{"role":"assistant","content":"a"}', CHAT)

    assert orjson.loads(turn or b"").keys() == {"model", "messages"}


def test_bodies_that_are_too_large_are_not_read_ahead():
    answer = orjson.dumps({"role": "assistant", "content": "a"})

    room = 2**20 - len(answer) - len(body({**USER, "content": ""}))
    turns = [
        next_turn(body({**USER, "content": "x" * size}), answer, CHAT) for size in (room, room + 1)
    ]
    assert [turn is None for turn in turns] == [False, True]
    assert system_prompt(body({**SYSTEM, "content": "x" * 2**20}), CHAT) is None


def responses(given: Any, **fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "input": given, **fields})


def test_the_system_prompt_of_a_responses_call_is_its_instructions_and_leading_items():
    fields = {"instructions": "Be kind.", "tools": TOOLS}
    prompt = system_prompt(responses([SYSTEM, USER, SYSTEM], **fields), RESPONSES)
    alone = system_prompt(responses("Hello", **fields), RESPONSES)

    assert prompt is not None
    assert orjson.loads(prompt.body)["input"] == [SYSTEM, {"role": "user", "content": "."}]
    assert orjson.loads(prompt.body)["instructions"] == "Be kind."
    assert alone is not None
    assert orjson.loads(alone.body)["input"] == [{"role": "user", "content": "."}]
    assert alone.digest != prompt.digest


def test_prompts_of_several_parts_have_names_of_their_own():
    def prompt_of_call(**fields: Any) -> SystemPrompt | None:
        return system_prompt(responses("Hello", **fields), RESPONSES)

    result = [
        prompt_of_call(instructions="a", tools=[]),
        prompt_of_call(instructions="b", tools=[]),
        prompt_of_call(instructions="a", tools=TOOLS),
    ]
    assert len({prompt.digest for prompt in result if prompt is not None}) == 3


@pytest.mark.parametrize(
    "sent",
    [
        responses("Hello"),
        responses([USER], instructions=None),
        responses([USER], instructions=""),
        responses([USER], instructions="a", previous_response_id="resp_1"),
        responses([USER], instructions="a", conversation={"id": "conv_1"}),
        responses([USER], prompt={"id": "pmpt_1"}, instructions="a"),
        orjson.dumps({"model": "m", "instructions": "a"}),
    ],
)
def test_a_responses_call_without_a_system_prompt_or_kept_elsewhere_has_none_to_warm(sent: bytes):
    assert system_prompt(sent, RESPONSES) is None


def test_the_system_prompt_of_a_messages_call_is_its_system_field():
    prompt = system_prompt(body(USER, system="Be kind.", max_tokens=9), MESSAGES)

    assert prompt is not None
    assert orjson.loads(prompt.body)["messages"] == [{"role": "user", "content": "."}]
    assert orjson.loads(prompt.body)["system"] == "Be kind."
    assert system_prompt(body(USER), MESSAGES) is None


def test_claude_codes_attribution_line_gives_a_system_prompt_no_other_name():
    def prompt_of_call(version: str) -> SystemPrompt | None:
        line = {"type": "text", "text": f"x-anthropic-billing-header: cc_version={version}"}
        text = {"type": "text", "text": "You are Claude Code."}
        return system_prompt(body(USER, system=[line, text]), MESSAGES)

    first, later = prompt_of_call("2.1.0"), prompt_of_call("2.1.1")
    assert first is not None
    assert first == later
    assert b"billing" not in first.body


def test_the_next_turn_of_a_responses_call_holds_the_items_of_its_answer():
    item = {"type": "message", "role": "assistant", "content": "Good day"}
    turn = next_turn(responses("Hello", instructions="a"), orjson.dumps([item]), RESPONSES)

    assert orjson.loads(turn or b"") == {
        "model": "m",
        "input": [USER, item, {"role": "user", "content": "."}],
        "instructions": "a",
    }


def test_after_calls_among_the_items_come_their_outputs():
    items = [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": "x"},
    ]
    turn = orjson.loads(next_turn(responses([USER]), orjson.dumps(items), RESPONSES) or b"")

    assert turn["input"] == [
        USER,
        *items,
        {"type": "function_call_output", "call_id": "a", "output": ""},
        {"type": "custom_tool_call_output", "call_id": "b", "output": ""},
    ]


def test_a_turn_whose_earlier_ones_are_kept_elsewhere_or_of_another_api_has_no_next_one():
    items, message = b"[]", b'{"role":"assistant","content":"a"}'

    assert next_turn(responses([USER], previous_response_id="r"), items, RESPONSES) is None
    assert next_turn(body(USER), message, MESSAGES) is None
    assert next_turn(body(USER), message, "completions") is None
    assert next_turn(responses([USER]), b"{", RESPONSES) is None


_TEXTS = st.text(max_size=20)


@given(st.lists(_TEXTS, min_size=1, max_size=4), _TEXTS, _TEXTS)
def test_a_next_turn_begins_as_the_call_that_will_come(
    texts: list[str], answer: str, question: str
):
    messages = [{"role": "user", "content": text} for text in texts]
    assistant = {"role": "assistant", "content": answer}
    warmed = call_prompt(next_turn(body(*messages), orjson.dumps(assistant), CHAT) or b"", CHAT)
    come = call_prompt(body(*messages, assistant, {"role": "user", "content": question}), CHAT)

    assert warmed is not None
    assert come is not None
    shared = body(*messages, assistant).partition(b'"messages":')[2].rpartition(b"]")[0]
    assert warmed.content.partition(b"[")[2].startswith(shared[1:])
    assert come.content.partition(b"[")[2].startswith(shared[1:])
