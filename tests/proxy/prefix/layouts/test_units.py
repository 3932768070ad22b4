"""A text in lines and sentences."""

from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.units import LIMIT, LONG, WALL, is_distinctive, split_units

MEGABYTES = 5_000_000


@pytest.mark.slow
@given(st.text("ab. \n!?\0\u3002", max_size=600), st.integers(1, 9))
def test_the_units_together_are_the_text(said, limit):
    found = split_units(said, limit)

    assert "".join(found) == said
    assert len(found) <= limit
    assert all(found)


def test_lines_are_units():
    assert split_units("one\n\ntwo\n") == ("one\n", "\n", "two\n")


def test_an_empty_text_has_none():
    assert split_units("") == ()


def test_a_long_line_is_split_at_the_ends_of_sentences():
    sentence = "x" * LONG + ". "

    assert split_units(f"short. line\n{sentence}Then? Yes! End.\n") == (
        "short. line\n",
        sentence,
        "Then? ",
        "Yes! ",
        "End.\n",
    )


def test_a_line_without_end_is_one_unit():
    assert len(split_units("a. " * WALL)) == 1


def test_beyond_the_bound_the_rest_is_one_unit():
    found = split_units("a\n" * (LIMIT + 9))

    assert len(found) == LIMIT
    assert found[-1] == "a\n" * 10


@pytest.mark.parametrize("pattern", ["a", "\n", ". ", "ab. \n", "ab cd. " * 40 + "\n", ".'"])
def test_five_megabytes_take_little_time(pattern):
    said = pattern * (MEGABYTES // len(pattern))
    times = []
    for _ in range(3):
        start = thread_time()
        split_units(said)
        times.append(thread_time() - start)

    assert min(times) < 0.2


@pytest.mark.parametrize(
    ("unit", "tells"),
    [("", False), ("- ", False), ("```\n", False), ("a-b_c", False), ("## Tools", True)],
)
def test_a_place_is_known_by_words_only(unit, tells):
    assert is_distinctive(unit) is tells


@pytest.mark.slow
def test_punctuation_without_end_is_seen_through_quickly():
    start = thread_time()

    assert not is_distinctive("-_" * MEGABYTES)
    assert thread_time() - start < 2.0
