"""True if a call goes on with a conversation, and which."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.records.call import Call, Key
from proxy.services.objectives.conversations import canary_draw, conversation_key, is_bound, is_new
from tests.fakes.desk import KEY, call

USER = {"role": "user", "content": "Hello"}
SYSTEM = {"role": "system", "content": "You are kind."}
ANSWER = {"role": "assistant", "content": "Hi"}


def chat(*messages: Any, **fields: Any) -> Call:
    return call(json.dumps({"model": "m", "messages": messages}).encode(), **fields)


def response(said: Any, **fields: Any) -> Call:
    return call(json.dumps({"model": "m", "input": said, **fields}).encode(), "responses")


@pytest.mark.parametrize(
    ("asked", "is_it"),
    [
        (chat(SYSTEM, USER), True),
        (chat(SYSTEM, USER, ANSWER, USER), False),
        (call(b'{"model":"m","messages":[{"role" :\n"assistant"}]}'), False),
        (chat({"role": "user", "content": 'say "assistant"'}), True),
        (response("Hello"), True),
        (response([USER, ANSWER, USER]), False),
        (response([{"type": "function_call_output", "output": "1"}]), False),
        (call(b'{"model":"m","messages":["x",{"role" :\n"assistant"}]}'), False),
        (chat({"role": "user", "content": "x", "told": {"role": "assistant"}}), True),
        (call(b"\xff", fields=None), True),
    ],
)
def test_a_conversation_is_new_until_something_was_answered(asked, is_it):
    assert is_new(asked) is is_it


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_what_its_provider_keeps_binds_a_call_to_it(field):
    assert is_bound(response("Hello", **{field: "x"}))
    assert not is_bound(response("Hello"))
    assert not is_bound(call(b"\xff", fields=None))


def test_the_calls_of_a_conversation_share_its_name():
    assert conversation_key(chat(SYSTEM, USER)) == conversation_key(
        chat(SYSTEM, USER, ANSWER, {**USER, "content": "x"})
    )
    assert conversation_key(response([SYSTEM, USER])) == conversation_key(
        response([SYSTEM, USER, ANSWER, USER])
    )
    assert len(conversation_key(chat())) == 16


def test_what_is_first_said_for_all_does_not_make_one_conversation_of_all():
    other = {"role": "user", "content": "Another"}

    assert conversation_key(chat(SYSTEM, USER)) != conversation_key(chat(SYSTEM, other))
    assert conversation_key(response([SYSTEM, USER])) != conversation_key(response([SYSTEM, other]))
    assert conversation_key(response("Hello")) != conversation_key(response("Another"))


def test_a_conversation_keeps_its_name_when_it_grows_long():
    long = {**ANSWER, "content": "y" * 500_000}

    short, grown = chat(SYSTEM, USER), chat(SYSTEM, USER, long, USER, id="call_grown")
    assert conversation_key(short) == conversation_key(grown)


def test_a_conversation_that_has_a_name_is_known_by_it():
    first, later = chat(USER, conversation="c"), chat(SYSTEM, conversation="c")

    assert conversation_key(first) == conversation_key(later)
    assert conversation_key(first) != conversation_key(chat(USER, conversation="d"))


@pytest.mark.parametrize(
    "fields",
    [{"key": Key(id="k", team="other", team_name="other")}, {"feature": "other"}],
)
def test_others_conversations_are_others(fields):
    assert conversation_key(chat(USER)) != conversation_key(chat(USER, **fields))


def test_long_beginnings_are_cut():
    long = "x" * 5_000

    assert conversation_key(chat({"role": "user", "content": long})) == conversation_key(
        chat({"role": "user", "content": long + "y"})
    )


@given(st.binary(max_size=100), st.text(max_size=20))
def test_whatever_is_sent_has_a_name(body, conversation):
    asked = call(body, fields=None, conversation=conversation, key=KEY)

    assert len(conversation_key(asked)) == 16
    assert is_new(asked) in {True, False}


def test_halves_of_letters_are_names_too():
    assert len(conversation_key(chat(USER, conversation="\ud800", feature="\udfff"))) == 16


def test_the_draw_of_a_call_is_its_own_and_even():
    draws = [canary_draw(call(b"{}", id=f"call_{n}")) for n in range(2_000)]

    assert canary_draw(call(b"{}", id="call_7")) == draws[7]
    assert all(0.0 <= each < 1.0 for each in draws)
    assert sum(each < 0.05 for each in draws) / 2_000 == pytest.approx(0.05, abs=0.02)
