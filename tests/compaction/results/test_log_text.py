from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.results.log_text import compress_log


@given(st.text())
def test_a_terse_text_is_no_longer(text):
    assert len(compress_log(text)) <= len(text)


@given(st.text(alphabet="ab \n"))
def test_plain_lines_that_do_not_repeat_stay(text):
    lines = text.split("\n")
    if any(one == other for one, other in pairwise(lines)):
        return

    assert compress_log(text) == text


def test_colours_are_no_words():
    assert (
        compress_log("\x1b[1;31mFAILED\x1b[0m tests \x1b]0;title\x07end\x1bM") == "FAILED tests end"
    )


def test_progress_is_told_by_its_last_state():
    assert compress_log("get\n 10%\r 55%\r100% done\nend\r\n") == "get\n100% done\nend\n"


@pytest.mark.parametrize(
    "text",
    [
        "one\rtwo\rthree",  # an old file's line ends
        "a\nconnection error 7\r100%\n",
        "a\nname\rother\n",
    ],
)
def test_overwritten_text_that_is_no_progress_stays(text):
    assert compress_log(text) == text


def test_a_line_of_nothing_but_returns_is_empty():
    assert compress_log("a\n\r\r\nb") == "a\n\nb"


def test_lines_that_repeat_are_counted():
    assert (
        compress_log("start\n" + "retry in 5s\n" * 12 + "done")
        == "start\nretry in 5s [\N{MULTIPLICATION SIGN}12]\ndone"
    )


@pytest.mark.parametrize("text", ["go\ngo on\ngo on\nend", "}\n}\n}\n}", "\n\n\n\n"])
def test_short_runs_and_short_lines_stay(text):
    assert compress_log(text) == text


def test_counts_that_stand_already_are_never_mixed_with_ours():
    text = "retry in 5s\n" * 5 + "retry [\N{MULTIPLICATION SIGN}3]"

    assert compress_log(text) == text


@pytest.mark.parametrize(
    ("text", "compressed"),
    [
        ("wait\n" * 3 + "end", "wait [\N{MULTIPLICATION SIGN}3]\nend"),
        ("wait\n" * 2 + "end", "wait\nwait\nend"),
        ("tick\n" * 9 + "end", "tick [\N{MULTIPLICATION SIGN}9]\nend"),
        ("tic\n" * 9 + "end", "tic\n" * 9 + "end"),
    ],
)
def test_three_equal_lines_of_four_characters_are_counted(text, compressed):
    assert compress_log(text) == compressed
