"""Tests of the text at a seam: nothing comes twice, and nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.continuations.seam import SeamText, checked_text

words = st.text(alphabet="ab \n", max_size=40)
cuts = st.lists(st.integers(1, 5), max_size=30)


def join_parts(text: str, rest: str, sizes: list[int], *, echoes: bool = False) -> str:
    """The text that a caller has in the end, where the rest comes in pieces of these sizes."""
    seam, start, out = SeamText(text, echoes=echoes), 0, text
    for size in sizes:
        out += seam.feed(rest[start : start + size])
        start += size
    return out + seam.feed(rest[start:]) + seam.end()


@given(whole=words, place=st.integers(0, 40), sizes=cuts)
def test_a_rest_after_text_without_its_last_spaces_makes_the_whole_again(whole, place, sizes):
    text = whole[:place]
    rest = whole[len(text.rstrip()) :]

    assert join_parts(text, rest, sizes).rstrip() == whole.rstrip()


@given(whole=words, place=st.integers(0, 40), sizes=cuts)
def test_an_echo_of_the_text_is_left_out(whole, place, sizes):
    text = whole[:place]

    assert join_parts(text, whole, sizes, echoes=True).rstrip() == whole.rstrip()


@given(sizes=cuts, place=st.integers(32, 70))
def test_a_long_text_that_comes_again_is_an_echo_whatever_is_known_of_its_route(sizes, place):
    whole = "one two three four five six seven eight nine ten eleven twelve thirteen"

    assert join_parts(whole[:place], whole, sizes) == whole


@pytest.mark.parametrize(
    ("text", "rest", "whole"),
    [
        ("foo ", " bar", "foo bar"),
        ("foo ", "bar", "foo bar"),
        ("foo", " bar", "foo bar"),
        ("fo", "o bar", "foo bar"),
        ("foo\n", "\n\nbar", "foo\n\nbar"),
        ("foo\n\n", "\nbar", "foo\n\nbar"),
        ("foo ", "\n\nbar", "foo \n\nbar"),
        ("foo\n", " bar", "foo\nbar"),
        ("ha", "ha", "haha"),
        ("foo ", "", "foo "),
        ("foo ", " ", "foo "),
    ],
)
def test_white_space_at_the_seam_comes_once(text, rest, whole):
    assert join_parts(text, rest, []) == whole
    assert join_parts(text, rest, [1] * len(rest)) == whole


def test_a_short_text_may_be_said_again():
    assert join_parts("very ", " very good", []) == "very very good"


@pytest.mark.parametrize("text", ["", " \n", "caf\ufffd"])
def test_text_without_words_or_that_ends_within_a_letter_is_not_continued(text):
    with pytest.raises(ValueError, match="cannot be gone on from"):
        checked_text(text)
