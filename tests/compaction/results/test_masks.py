import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.results.masks import CALLED, DEFINED, NAMED, PATH, Names, faults, is_file, shown


@given(st.text())
def test_what_went_wrong_is_one_line(text):
    assert len(faults(text).splitlines()) <= 1


@given(st.text())
def test_names_stand_in_the_text(text):
    assert all(name in text for name in shown(text))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ok\n" * 9, ""),
        ("all terrors are told\n", ""),
        ("\x1b[31mValueError: no such field\x1b[0m\nexit\n", "ValueError: no such field"),
        ("a: b\nE   AssertionError: x\n", "E   AssertionError: x"),
        ("bash: tree: command not found", "bash: tree: command not found"),
        ("fatal: one\n\nfatal: two\nfatal: three\n", "fatal: two ¶ fatal: three"),
        ("fatal: one\nfatal: two\nfatal: two\n", "fatal: one ¶ fatal: two"),
    ],
)
def test_the_last_lines_that_tell_of_a_fault_stay(text, told):
    assert faults(text) == told


def test_a_path_counts_more_than_what_is_defined_called_and_named():
    text = "src/a.py: def total(x):\n    return round_up(x.price, setup.cfg, x)\n"

    assert shown(text) == {
        "src/a.py": PATH,
        "total": DEFINED,
        "round_up": CALLED,
        "price": NAMED,
        "setup.cfg": PATH,
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("log.getLogger('x')", {"getLogger": CALLED}),
        ("theirName.plain", {"plain": NAMED, "theirName": NAMED}),
        ("getIt(1) getIt", {"getIt": CALLED}),
        ("1.5(", {}),
        ("see https://a.b/c/d?e=1", {"https://a.b/c/d?e=1": CALLED}),
        ("and/or plain words, 12.5 2024.", {}),
        ("</output> x" + "y_" * 200, {}),
        ("the class of type hints", {}),
        ('Traceback\n  File "<stdin>", line 3, in cursor\n', {"cursor": DEFINED}),
        ("def f(a):", {}),
    ],
)
def test_names_are_told_from_words(text, named):
    assert shown(text) == named


def test_what_words_name_is_known_for_the_next_text():
    known: dict[str, Names] = {}

    assert shown("get_it plain", known) == shown("get_it plain", known) == {"get_it": NAMED}
    assert known == {"get_it": (("get_it", NAMED),), "plain": ()}


def test_a_file_has_an_ending_that_is_known():
    assert is_file("setup.py")
    assert not is_file("os.environ")


@pytest.mark.parametrize(
    "piece",
    ["a/", "a.b ", "def ", "def aa", " ", "Error: ", "1: ", "a(", "a://", "</", "\t", ", line 1"],
)
def test_no_text_takes_long(piece):
    text = piece * (300_000 // len(piece))

    before = time.process_time()
    shown(text)
    faults(text)

    assert time.process_time() - before < 2
