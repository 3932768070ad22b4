"""Cues: how a call is told to go wrong."""

from typing import Any

import pytest

from proxy.tools.simulator.fault_directives import (
    NAMES,
    FaultDirectives,
    closing_text,
    decode_arguments,
    next_tool_call,
    parse_directives,
    with_directives,
    without_directives,
)


def test_no_text_is_no_cue() -> None:
    assert parse_directives("") == FaultDirectives()
    assert parse_directives(" , ") == FaultDirectives()


def test_cues_keep_their_order_and_their_values() -> None:
    cues = parse_directives("split=7, call=a,call=b,crlf")

    assert cues.values("call") == ("a", "b")
    assert cues.number("split", 0) == 7
    assert cues.number("crlf", 3) == 3
    assert cues.number("death", 2) == 2
    assert "crlf" in cues
    assert "death" not in cues


@pytest.mark.parametrize(("text", "status"), [("ok", 0), ("429=0.5", 429), ("crlf,503", 503)])
def test_a_number_is_the_status_to_refuse_with(text: str, status: int) -> None:
    assert parse_directives(text).status == status


@pytest.mark.parametrize("text", ["dearth", "200", "600", "death=soon", "args=eyJh"])
def test_an_unknown_cue_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"fault|float|JSON|unexpected end"):
        parse_directives(text)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_a_cue(name: str) -> None:
    assert name in parse_directives(name)


def test_cues_are_written_into_text_and_taken_out_again() -> None:
    text = "Do it [[fault:429]] now [[fault:split=3,crlf]]"

    assert with_directives(text) == parse_directives("429") + parse_directives("split=3,crlf")
    assert without_directives(text) == "Do it  now"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"messages": [{"role": "user", "content": "a"}]}, "a"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {}]}]}, "a "),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]}, ""),
        ({"input": "a"}, "a"),
        ({"input": [{"role": "user", "content": "a"}]}, "a"),
        ({"prompt": ["a"]}, "a"),
        ({"messages": 5}, ""),
        ({"messages": []}, ""),
        ({"messages": [{"role": "user", "content": [{"text": 5}, 6]}]}, " "),
        ({}, ""),
    ],
)
def test_only_a_closing_user_message_is_heard(body: dict[str, Any], text: str) -> None:
    assert closing_text(body) == text


ASK = 'Fix it. [[call:Read {"path": "a", "rows": [[1]]}]] [[call:Bash]] Thanks.'


def directed_call(messages: list[Any], field: str = "messages") -> tuple[str, str] | None:
    """The name and arguments of the directed call whose turn it is; None for none."""
    cues = next_tool_call({field: messages})
    if not cues.entries:
        return None
    return cues.values("offered-call")[0], decode_arguments(cues.values("args")[0])


CHAT_CALL = {"role": "assistant", "tool_calls": [{"id": "1"}]}
CHAT_RESULT = {"role": "tool", "tool_call_id": "1", "content": "ok"}
MESSAGES_CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "1"}]}
MESSAGES_RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "1"}, {"type": "text", "text": "reminder"}],
}
RESPONSES_CALL = {"type": "function_call", "call_id": "1"}
RESPONSES_RESULT = {"type": "function_call_output", "call_id": "1", "output": "ok"}


@pytest.mark.parametrize(
    ("field", "step"),
    [
        ("messages", [CHAT_CALL, CHAT_RESULT]),
        ("messages", [MESSAGES_CALL, MESSAGES_RESULT]),
        ("input", [RESPONSES_CALL, RESPONSES_RESULT]),
    ],
)
def test_directed_tool_calls_follow_each_other_as_their_results_come_back(
    field: str, step: list[Any]
) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": ASK}]}]

    assert directed_call(messages, field) == ("Read", '{"path":"a","rows":[[1]]}')
    assert directed_call(messages + step, field) == ("Bash", "{}")
    assert directed_call(messages + step * 2, field) is None


def test_a_newer_text_that_directs_tool_calls_begins_anew() -> None:
    again = [{"role": "user", "content": "[[call:Write {}]]"}]

    assert directed_call([{"role": "user", "content": ASK}, CHAT_CALL, CHAT_RESULT, *again]) == (
        "Write",
        "{}",
    )


def test_an_input_of_plain_text_directs_a_tool_call() -> None:
    assert next_tool_call({"input": ASK}).values("offered-call") == ("Read",)


@pytest.mark.parametrize("text", ["[[call:Read {]]", "[[call:Read {} x]]", "[[call:]]", "[[call:a"])
def test_a_broken_directive_of_a_tool_call_is_text(text: str) -> None:
    assert directed_call([{"role": "user", "content": text}]) is None
    assert without_directives(text) == text


def test_directed_tool_calls_are_taken_out_of_the_text() -> None:
    assert without_directives(ASK) == "Fix it.   Thanks."
