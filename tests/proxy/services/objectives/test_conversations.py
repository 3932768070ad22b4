import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.records.call import Call, Key
from proxy.services.objectives.conversations import (
    ConversationLevel,
    ConversationLevels,
    canary_draw,
    conversation_key,
    is_bound,
    is_new,
    is_worth_switching,
)
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from tests.fakes.call_dependencies import KEY, call, route

USER = {"role": "user", "content": "Hello"}
SYSTEM = {"role": "system", "content": "You are kind."}
ANSWER = {"role": "assistant", "content": "Hi"}
LONG = b'{"model":"m","messages":[{"role":"user","content":"' + b"word " * 10_000 + b'"}]}'


def chat(*messages: Any, **fields: Any) -> Call:
    return call(json.dumps({"model": "m", "messages": messages}).encode(), **fields)


def response(text: Any, **fields: Any) -> Call:
    return call(json.dumps({"model": "m", "input": text, **fields}).encode(), "responses")


@pytest.mark.parametrize(
    ("incoming", "is_it"),
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
def test_a_conversation_is_new_until_something_was_answered(incoming, is_it):
    assert is_new(incoming) is is_it


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_a_call_is_bound_to_the_provider_that_stores_its_conversation(field):
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


def test_a_shared_system_prompt_does_not_make_one_conversation_of_all():
    other = {"role": "user", "content": "Another"}

    assert conversation_key(chat(SYSTEM, USER)) != conversation_key(chat(SYSTEM, other))
    assert conversation_key(response([SYSTEM, USER])) != conversation_key(response([SYSTEM, other]))
    assert conversation_key(response("Hello")) != conversation_key(response("Another"))


def test_a_conversation_keeps_its_name_when_it_grows_long():
    long = {**ANSWER, "content": "y" * 500_000}

    short, grown = chat(SYSTEM, USER), chat(SYSTEM, USER, long, USER, id="call_grown")
    assert conversation_key(short) == conversation_key(grown)


def test_the_key_of_a_named_conversation_is_of_its_name():
    first, later = chat(USER, conversation="c"), chat(SYSTEM, conversation="c")

    assert conversation_key(first) == conversation_key(later)
    assert conversation_key(first) != conversation_key(chat(USER, conversation="d"))


@pytest.mark.parametrize(
    "fields",
    [{"key": Key(id="k", team="other", team_name="other")}, {"feature": "other"}],
)
def test_conversations_of_other_teams_or_features_have_other_keys(fields):
    assert conversation_key(chat(USER)) != conversation_key(chat(USER, **fields))


def test_the_conversation_key_reads_only_the_start_of_a_long_first_message():
    long = "x" * 5_000

    assert conversation_key(chat({"role": "user", "content": long})) == conversation_key(
        chat({"role": "user", "content": long + "y"})
    )


@given(st.binary(max_size=100), st.text(max_size=20))
def test_any_body_has_a_conversation_key(body, conversation):
    request = call(body, fields=None, conversation=conversation, key=KEY)

    assert len(conversation_key(request)) == 16
    assert is_new(request) in {True, False}


def test_surrogates_in_names_have_a_conversation_key():
    assert len(conversation_key(chat(USER, conversation="\ud800", feature="\udfff"))) == 16


def test_the_draw_of_a_call_is_its_own_and_even():
    draws = [canary_draw(call(b"{}", id=f"call_{n}")) for n in range(2_000)]

    assert canary_draw(call(b"{}", id="call_7")) == draws[7]
    assert all(0.0 <= draw < 1.0 for draw in draws)
    assert sum(draw < 0.05 for draw in draws) / 2_000 == pytest.approx(0.05, abs=0.02)


def priced_route(name, prompt, read, output):
    rates = TokenRates(input=prompt, cache_read=read, output=output)
    return route(name, tariff=Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=rates)}),)))


HERE = priced_route("here", 1_000_000_000, 100_000_000, 4_000_000_000)


def test_switching_to_a_price_below_the_cached_one_is_worth_it():
    there = priced_route("there", 50_000_000, 5_000_000, 200_000_000)

    assert is_worth_switching(call(LONG), HERE, there)


def test_switching_to_half_the_price_is_not_worth_losing_cache_reads_at_a_tenth():
    there = priced_route("there", 500_000_000, 50_000_000, 2_000_000_000)

    assert not is_worth_switching(call(LONG), HERE, there)


def test_switching_is_worth_it_for_a_short_prompt_whose_answer_is_cheaper():
    there = priced_route("there", 500_000_000, 50_000_000, 2_000_000_000)

    assert is_worth_switching(call(b'{"model":"m","messages":[]}'), HERE, there)


def test_switching_is_never_worth_it_at_an_unknown_price():
    assert not is_worth_switching(call(LONG), HERE, route("there", tariff=None))
    assert not is_worth_switching(call(LONG), route("here", tariff=None), HERE)


def test_conversation_levels_forget_the_one_used_longest_ago():
    levels = ConversationLevels(2)
    for key in (b"a", b"b", b"a", b"c"):
        levels.remember(key, ConversationLevel("slow", 1, at=1.0))

    assert [levels.get(key) is not None for key in (b"a", b"b", b"c")] == [True, False, True]


def test_conversation_levels_forget_idle_conversations_and_discarded_ones():
    levels = ConversationLevels(9)
    for key, time in ((b"a", 1.0), (b"b", 2.0), (b"c", 3.0)):
        levels.remember(key, ConversationLevel("slow", 1, at=time))
    levels.forget(2.0)
    levels.discard(b"c")
    levels.discard(b"nobody")

    assert (len(levels), levels.get(b"b")) == (1, ConversationLevel("slow", 1, at=2.0))
