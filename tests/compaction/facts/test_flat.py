from hypothesis import given
from hypothesis import strategies as st

from compaction.facts.flat import capped, ends, fitting, flat, headed


@given(st.text())
def test_a_text_is_one_line_and_no_line_of_it_is_lost(text):
    assert len(flat(text).splitlines()) <= 1
    assert all(line.rstrip() in flat(text) for line in text.splitlines())


@given(st.text(st.sampled_from("ab \n"), max_size=3_000), st.integers(10, 900))
def test_the_ends_of_a_text_do_not_meet_and_no_more_stays_than_was_asked(text, most):
    if len(text) > most:
        first, last = ends(text, most)

        assert 0 < first <= last
        assert first + len(text) - last <= most


def test_a_cut_text_names_the_ids_that_are_gone():
    assert capped("short", 10) == "short"
    assert capped("a" * 90 + " QXM04B " + "b" * 90, 40) == "a" * 30 + " […QXM04B…] " + "b" * 10


def test_a_head_ends_with_a_word():
    assert headed("one two three", 9) == "one two …"[:7] + " …"
    assert headed("onetwothree", 3) == "one …"
    assert headed("one", 3) == "one"


def test_words_stay_as_long_as_there_is_room():
    assert list(fitting(["aa", "bb", "cc"], 6)) == ["aa", "bb"]
    assert list(fitting(["aa"], 6)) == ["aa"]
