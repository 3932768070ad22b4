"""Tests of the units of an answer."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.language.reply_units import reply_units


def units(text):
    return [unit.text for unit in reply_units(text)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("It is open. It is near.", ["It is open.", "It is near."]),
        ("Two ways:\nby bus.", ["Two ways: by bus."]),
        ("\u4e24\u4e2a\uff1a\n\u7f57\u9a6c", ["\u4e24\u4e2a\uff1a \u7f57\u9a6c"]),
        ("1. Rome\n2. Oslo", ["1) Rome", "2) Oslo"]),
        ("1) Rome:\n- at 9\n- $12\n2) Oslo", ["1) Rome: at 9; $12", "2) Oslo"]),
        ("- Fee\n- Bags:\n  - one\n  - two", ["- Fee", "- Bags: one; two"]),
        ("1. Rome:\nat 9\nfor $12\n\nWell?", ["1) Rome: at 9; for $12", "Well?"]),
        ("* Rome\nWhich one?", ["- Rome", "Which one?"]),
        ("### Plan:\n**Look** first.", ["Plan: Look first."]),
        ("And then:", ["And then:"]),
    ],
)
def test_units_are_sentences_and_whole_items(text, parts):
    assert units(text) == parts


def test_items_are_told_from_sentences():
    assert [unit.is_item for unit in reply_units("So. Two:\n- a\n- b\n\nOK?")] == [
        False,
        True,
        True,
        False,
    ]


def test_a_long_item_is_its_sentences():
    long_item = "It goes on and on. " * 40

    assert units(f"1. Rome. {long_item}\n2. Oslo")[:2] == ["1) Rome.", "It goes on and on."]
    assert all(unit.is_item for unit in reply_units(f"1. {long_item}"))


@given(st.text(st.sampled_from("ab1 .:-*\n#")))
def test_no_word_is_lost_and_each_unit_is_one_line(text):
    words = "".join(units(text))

    assert all(word in words for word in text.replace("**", "").split() if word.isalpha())
    assert all(len(unit.splitlines()) == 1 for unit in units(text))


@pytest.mark.parametrize("piece", ["a:\n", "1. a\n", "- a:\n  - b\n", "#", "** "])
def test_no_text_takes_long(piece):
    before = time.process_time()
    reply_units(piece * 5_000)

    assert time.process_time() - before < 1


def test_an_item_of_600_characters_is_one_unit_and_a_longer_one_is_not():
    assert len(units(f"- One. {'x' * 593}")) == 1
    assert len(units(f"- One. {'x' * 594}")) == 2
