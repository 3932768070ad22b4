"""Cues: how a call is told to go wrong."""

from typing import Any

import pytest

from proxy.tools.simulator.fault_directives import (
    NAMES,
    FaultDirectives,
    closing_text,
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
