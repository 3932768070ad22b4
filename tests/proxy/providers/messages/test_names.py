"""Ids of messages and tool calls, and names of tools."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.chat.chat_options import short_tool_name
from proxy.providers.messages.names import (
    caller_call_id,
    caller_tool_names,
    chat_call_id,
    message_id,
)


def test_a_message_has_anthropics_prefix_once() -> None:
    assert message_id("7f") == "msg_7f"
    assert message_id("msg_7f") == "msg_7f"


@given(st.text(min_size=1).filter(lambda name: name.isprintable()), st.text(max_size=9))
def test_an_upstream_reads_the_very_id_that_it_gave(name: str, tail: str) -> None:
    given_to_caller = caller_call_id(name, tail)

    assert re.fullmatch(r"[a-zA-Z0-9_-]+", given_to_caller)
    assert given_to_caller.startswith("toolu_")
    assert chat_call_id(given_to_caller, "any") == name


def test_ids_that_an_upstream_gives_in_every_answer_differ_for_the_caller() -> None:
    assert caller_call_id("call_0", "a") != caller_call_id("call_0", "b")
    assert caller_call_id("call_0", "a") == caller_call_id("call_0", "a")


def test_ids_of_anthropic_stay_in_both_directions() -> None:
    assert caller_call_id("toolu_01Ab", "7f") == "toolu_01Ab"
    assert chat_call_id("toolu_01Ab", "short") == "toolu_01Ab"


@pytest.mark.parametrize("packed", ["!!", "_w"])
def test_an_id_that_only_looks_like_ours_stays(packed: str) -> None:
    assert chat_call_id(f"toolu_tx00000000_{packed}", "any") == f"toolu_tx00000000_{packed}"


@given(st.text(alphabet="ab_-1", min_size=41, max_size=90))
def test_openai_gets_ids_of_another_upstream_in_at_most_forty_characters(name: str) -> None:
    assert len(chat_call_id(name, "short")) <= 40
    assert chat_call_id(name, "short") != chat_call_id(name + "x", "short")


@given(st.text(alphabet="ab_-1", min_size=1, max_size=90))
def test_mistral_gets_nine_letters_and_digits(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9]{9}", chat_call_id(name, "nine"))


def test_a_long_name_of_a_tool_is_shortened_and_found_again() -> None:
    long, other = "mcp__server__" + "a" * 60 + "1", "mcp__server__" + "a" * 60 + "2"

    assert len(short_tool_name(long)) == 64
    assert short_tool_name(long) != short_tool_name(other)
    assert short_tool_name("weather") == "weather"
    assert caller_tool_names(["weather", long]) == {short_tool_name(long): long}
