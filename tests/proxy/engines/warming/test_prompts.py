"""Bodies that warm: each begins exactly as the call will that it is for."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.call_prompt import call_prompt
from proxy.engines.warming.prompts import MAX_BODY_BYTES, next_turn, system_prompt

SYSTEM = {"role": "system", "content": "You are a clerk."}
USER = {"role": "user", "content": "Hello"}
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def body(*messages: Any, **fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "messages": messages, **fields})


def test_the_system_prompt_is_all_that_stands_before_the_first_message_of_a_user():
    developer = {"role": "developer", "content": "Be brief."}
    found = system_prompt(body(SYSTEM, developer, USER, SYSTEM, temperature=0.5, tools=TOOLS))

    assert found is not None
    assert orjson.loads(found.body) == {
        "model": "m",
        "messages": [SYSTEM, developer, {"role": "user", "content": "."}],
        "temperature": 0.5,
        "tools": TOOLS,
    }


def test_the_same_prompt_has_one_name_whatever_follows_and_other_tools_another():
    names = [
        found.digest
        for each in (body(SYSTEM, USER), body(SYSTEM, {**USER, "content": "Bye"}, user="u"))
        if (found := system_prompt(each)) is not None
    ]
    other = system_prompt(body(SYSTEM, USER, tools=TOOLS))

    assert len(names) == 2
    assert names[0] == names[1]
    assert other is not None
    assert other.digest != names[0]


@pytest.mark.parametrize(
    "said", [b"{", b"[]", body(USER), body(), b'{"messages":3}', b'{"messages":[3]}', b"{}"]
)
def test_a_body_without_a_system_prompt_has_none_to_warm(said: bytes):
    assert system_prompt(said) is None


def test_the_next_turn_holds_the_answer_and_stands_in_for_what_is_not_known():
    answer = {"role": "assistant", "content": "Good day"}
    found = orjson.loads(next_turn(body(SYSTEM, USER), orjson.dumps(answer)) or b"")

    assert found["messages"] == [SYSTEM, USER, answer, {"role": "user", "content": "."}]


def test_after_tool_calls_come_their_results():
    calls = [{"id": each, "type": "function", "function": {}} for each in "ab"]
    answer = {"role": "assistant", "content": None, "tool_calls": calls}
    found = orjson.loads(next_turn(body(USER), orjson.dumps(answer)) or b"")

    assert found["messages"][2:] == [
        {"role": "tool", "tool_call_id": each, "content": ""} for each in "ab"
    ]


def test_the_callers_place_in_a_queue_is_not_the_warming_calls():
    found = next_turn(body(USER, priority=-9, nvext={}), b'{"role":"assistant","content":"a"}')

    assert orjson.loads(found or b"").keys() == {"model", "messages"}


def test_bodies_that_are_too_large_are_not_read_ahead():
    answer = orjson.dumps({"role": "assistant", "content": "a"})

    assert next_turn(body({**USER, "content": "x" * MAX_BODY_BYTES}), answer) is None
    assert system_prompt(body({**SYSTEM, "content": "x" * MAX_BODY_BYTES})) is None


_TEXTS = st.text(max_size=20)


@given(st.lists(_TEXTS, min_size=1, max_size=4), _TEXTS, _TEXTS)
def test_a_next_turn_begins_as_the_call_that_will_come(said: list[str], answer: str, question: str):
    messages = [{"role": "user", "content": each} for each in said]
    assistant = {"role": "assistant", "content": answer}
    warmed = call_prompt(next_turn(body(*messages), orjson.dumps(assistant)) or b"", _CHAT)
    come = call_prompt(body(*messages, assistant, {"role": "user", "content": question}), _CHAT)

    assert warmed is not None
    assert come is not None
    shared = body(*messages, assistant).partition(b'"messages":')[2].rpartition(b"]")[0]
    assert warmed.content.partition(b"[")[2].startswith(shared[1:])
    assert come.content.partition(b"[")[2].startswith(shared[1:])


_CHAT = "chat/completions"
