"""Tests of the grounding check of notes: ids, words and quotes of their sources."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.notes.grounding import (
    holds_token,
    is_worded_from,
    on_one_line,
    order_words,
    unescape_json,
    verbatim_tokens,
    whole_sentences,
    word_stems,
)


@pytest.mark.parametrize(
    ("sentence", "tokens"),
    [
        ("Moved W7GHI8 to 2024-05-17.", ["W7GHI8", "2024-05-17"]),
        ("Wrote to mia@example.com, then src/app.py!", ["mia@example.com", "src/app.py"]),
        ('She said "not before noon" twice', ["not before noon"]),
        ("Runs `make test` now", ["make test"]),
        ("It is “quite late” now", ["quite late"]),
        ("HAT012's price (412.50)", ["HAT012", "412.50"]),
        ("The getUser call and order-a-b", ["getUser", "order-a-b"]),
        ("All words are plain here", []),
        ("JFK wins", ["JFK"]),
        ("Müller paid", []),
    ],
)
def test_verbatim_tokens_of_a_sentence_are_found(sentence, tokens):
    assert list(verbatim_tokens(sentence)) == tokens


@pytest.mark.parametrize(
    ("token", "source", "holds"),
    [
        ("12", "4125", False),
        ("12", "12.50", False),
        ("12", "1,12", False),
        ("12", "12, and more", True),
        ("12", "4125 or 12", True),
        ("12.", "x12.", False),
        ("W7", "W7_8", False),
        ("W7", '{"id":"W7"}', True),
        ("/srv", "in /srv/b", True),
        ("x", "", False),
    ],
)
def test_a_token_stands_by_itself_or_not_at_all(token, source, holds):
    assert holds_token(token, source) is holds


def test_words_are_known_in_their_other_forms():
    assert is_worded_from("booked the flights", word_stems("Booking a flight is easy"))
    assert not is_worded_from("cancelled everything", word_stems("Booking a flight is easy"))
    assert is_worded_from("", word_stems(""))


def test_orders_are_told_by_their_words():
    assert order_words("You MUST ignore it") == {"must", "ignore"}
    assert order_words("It was booked") == frozenset()


@pytest.mark.parametrize(
    ("quote", "sentence"),
    [
        ("book basic economy", "Never book basic economy."),
        ("Never book basic economy.", "Never book basic economy."),
        ("economy. Call me", "Never book basic economy. Call me after noon, e.g. at three."),
        ("at three", "Call me after noon, e.g. at three."),
        (
            "wake me",
            "Do not do this:\n\n- wake me\n- call me".replace("\n\n", " ").replace("\n", " "),
        ),
        ("tell Ann", "Do not do this: - wake me. - tell Ann"),
        ("three. Dr. Who", "Call me after noon, e.g. at three. Dr. Who knows."),
        ("nobody", ""),
    ],
)
def test_a_quote_becomes_the_whole_sentence(quote, sentence):
    sources = {
        "wake me": "Hi there.\n\nDo not do this:\n\n- wake me\n- call me",
        "tell Ann": "Do not do this:\n- wake me.\n- tell Ann",
    }
    text = (
        "Hello there. Never book\nbasic economy. Call me after noon, e.g. at three. Dr. Who knows."
    )

    assert whole_sentences(quote, sources.get(quote, text)) == sentence


@given(st.text(alphabet="ab .!\n:-é。"), st.text(alphabet="ab .!", min_size=1))
def test_a_whole_sentence_is_the_users_and_holds_the_quote(source, quote):
    whole = whole_sentences(quote, source)

    if whole:
        squeezed = whole.replace(" ", "")
        assert squeezed in on_one_line(source).replace(" ", "")
        assert quote in whole


@pytest.mark.parametrize(
    ("text", "unescaped"),
    [("plain", "plain"), (r"M\u00fcller\n\"x\" \/", 'Müller\n"x" /'), (r"\q", r"\q")],
)
def test_escapes_are_undone(text, unescaped):
    assert unescape_json(text) == unescaped


@pytest.mark.parametrize(
    "piece", ["a. ", "\n", "\n ", "aaa.", '"', "\\", "`", "x-", "1", "1.", ":\n\n"]
)
def test_grounding_takes_time_linear_in_the_text(piece):
    text = piece * (100_000 // len(piece))
    began = time.thread_time()
    whole_sentences("nowhere to be found", text)
    unescape_json(text)
    word_stems(text)
    order_words(text)

    assert time.thread_time() - began < 2
