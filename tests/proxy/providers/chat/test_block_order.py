"""Tests of where words and calls stood among opaque blocks: told, and restored."""

from itertools import groupby
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from proxy.providers.chat.block_order import (
    BlockOrder,
    entry_kind,
    number_entries,
    restore_order,
    without_number,
)

_A = Raw(b'{"type":"thinking","thinking":"a","signature":"s1"}')
_B = Raw(b'{"type":"redacted_thinking","data":"x"}')
_C = Raw(b'{"type":"compaction","content":null}')
_ANSWERS = st.lists(st.sampled_from(["so ", "on 👋", "\n", _A, _B, _C, 0]), max_size=12)


def _message_fields(answer: list[Any]) -> tuple[list[Raw], str, list[tuple[str, dict[str, Any]]]]:
    """The three fields of the chat message for an answer; a number stands for a call."""
    order, entries, words, calls = BlockOrder(), list[Any](), "", list[tuple[str, dict[str, Any]]]()
    for block in answer:
        if isinstance(block, str):
            order.note_words(block)
            words += block
        elif isinstance(block, int):
            calls.append((f"t{len(calls)}", _call(len(calls))))
            order.note_call(calls[-1][0])
        else:
            entries += order.entries_for_block(block)
    entries += order.final_entries()
    return [Raw(msgspec.json.encode(block)) for block in entries], words, calls


def _call(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{number}"}


def _text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def _restore(entries: list[Raw], words: str, calls: list[tuple[str, dict[str, Any]]]) -> Any:
    return restore_order(entries, [_text(words)] if words else [], calls)


def _content(answer: list[Any]) -> list[Any]:
    """The content as it was, neighbouring words joined."""
    content: list[Any] = []
    numbers = iter(range(len(answer)))
    for is_text, run in groupby(answer, key=lambda one: isinstance(one, str)):
        if is_text:
            content.append(_text("".join(run)))
        else:
            content += [_call(next(numbers)) if isinstance(event, int) else event for event in run]
    return content


@given(_ANSWERS.filter(lambda answer: any(isinstance(block, Raw) for block in answer)))
def test_any_answer_with_opaque_blocks_gets_its_order_back(answer: list[Any]) -> None:
    assert _restore(*_message_fields(answer)) == _content(answer)


@given(_ANSWERS)
def test_all_blocks_and_nothing_else_stand_where_no_order_need_be_told(answer: list[Any]) -> None:
    rank = {Raw: 0, str: 1, int: 2}
    plain = sorted(answer, key=lambda one: rank[type(one)])

    assert _message_fields(plain)[0] == [block for block in plain if isinstance(block, Raw)]


def test_an_answer_without_opaque_blocks_has_nothing_to_tell() -> None:
    assert _message_fields([0, "so", 0, "on"])[0] == []


def test_a_place_says_nothing_of_the_words_but_their_length_and_digest() -> None:
    (first, place, second), *_ = _message_fields([_A, "secret", _B])

    assert (first, second) == (_A, _B)
    assert entry_kind(place) == "said"
    assert b"secret" not in bytes(place)


def test_text_added_after_the_last_block_keeps_the_order() -> None:
    entries, words, calls = _message_fields([_A, "so", 0, _B])
    more = [*calls, ("new", {"type": "tool_use", "id": "new"})]

    assert _restore(entries, words + " and on", more) == [
        _A,
        _text("so"),
        _call(0),
        _B,
        _text(" and on"),
        more[-1][1],
    ]


def test_calls_are_found_by_their_ids() -> None:
    entries, words, calls = _message_fields([_A, 0, _B, 0, _C])

    assert _restore(entries, words, calls[::-1]) == [_A, _call(0), _B, _call(1), _C]


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        ("sO", [("t0", _call(0))]),
        ("s", [("t0", _call(0))]),
        ("", [("t0", _call(0))]),
        ("so", []),
        ("so", [("t9", _call(9))]),
        ("so", [("t0", _call(0)), ("t0", _call(0))]),
    ],
)
def test_words_or_calls_that_were_changed_give_no_order(words: str, calls: Any) -> None:
    entries, *_ = _message_fields([_A, "so", 0, _B])

    assert _restore(entries, words, calls) is None


@pytest.mark.parametrize(
    "place",
    [
        b'{"type":"said"}',
        b'{"type":"said","length":-1,"digest":"x"}',
        b'{"type":"said","length":"2"}',
        b'{"type":"said","length":99999999999999999999,"digest":"x"}',
        b'{"type":"called"}',
        b'{"type":"called","id":null}',
    ],
)
def test_a_place_that_was_tampered_with_gives_no_order(place: bytes) -> None:
    assert _restore([_A, Raw(place)], "so", [("t0", _call(0))]) is None


def test_the_callers_own_parts_stay_apart_and_keep_their_markers() -> None:
    entries, *_ = _message_fields([_A, "abcd", _B, "ef"])
    mark = {"cache_control": {"type": "ephemeral"}}
    parts = [_text("ab", **mark), _text(""), _text("cde", **mark), _text("f")]

    assert restore_order(entries, parts, []) == [
        _A,
        _text("ab", **mark),
        _text(""),
        _text("cd"),
        _B,
        _text("e", **mark),
        _text("f"),
    ]


def test_entries_of_a_stream_are_numbered_but_for_one_that_comes_first_and_alone() -> None:
    assert number_entries([{"a": 1}], 0) == [{"a": 1}]
    assert number_entries([{"a": 1}, {"a": 2}], 0) == [{"a": 1, "index": 0}, {"a": 2, "index": 1}]
    assert number_entries([{"a": 1}], 3) == [{"a": 1, "index": 3}]


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        (b'{"b":1.50, "index":2,"a":"\\u00e9"}', b'{"b":1.50,"a":"\\u00e9"}'),
        (b'{"thinking": "the \\"index\\"" }', b'{"thinking": "the \\"index\\"" }'),
        (b'{"type":"index"}', b'{"type":"index"}'),
        (b'["index"]', b'["index"]'),
    ],
)
def test_a_thinking_block_loses_its_number_and_nothing_else(raw: bytes, left: bytes) -> None:
    assert bytes(without_number(Raw(raw))) == left


@pytest.mark.parametrize("raw", [b"5", b"{}", b'{"type":5}', b'"\xff"', b"[" * 5_000])
def test_an_entry_that_is_no_block_has_no_kind(raw: bytes) -> None:
    assert entry_kind(Raw(raw)) == ""
