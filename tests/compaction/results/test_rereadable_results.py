import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.results.rereadable_results import (
    CALLED_RANK,
    DEFINED_RANK,
    NAMED_RANK,
    fault_lines,
    is_file,
    shown_names,
)


@given(st.text())
def test_fault_lines_stand_on_one_line(text):
    assert len(fault_lines(text).splitlines()) <= 1


@given(st.text())
def test_names_stand_in_the_text(text):
    assert all(name in text for name, _ in shown_names(text))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("ok\n" * 9, ""),
        ("all terrors are told\n", ""),
        ("Exception related checks.\n", ""),
        ("\x1b[31mValueError: no such field\x1b[0m\nexit\n", "ValueError: no such field"),
        ("a: b\nE   AssertionError: x\n", "E AssertionError: x"),
        ("fatal: 1\nE  assert x\n", "fatal: 1 ¶ E assert x"),
        ("Traceback (most recent call last)\n  in f\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        ("bash: tree: command not found", "bash: tree: command not found"),
        ("fatal: 1\n\nfatal: 2\nfatal: 3\nfatal: 4", "fatal: 2 ¶ fatal: 3 ¶ fatal: 4"),
        ("fatal: one\nfatal: two\nfatal: two\n", "fatal: one ¶ fatal: two"),
    ],
)
def test_the_last_lines_that_tell_of_a_fault_stay(text, fault):
    assert fault_lines(text) == fault


@pytest.mark.parametrize(
    "line",
    [
        "TimeoutError: upstream took 31.2s",
        "Caused by: java.io.IOException: no disk",
        "E AssertionError: assert 3 == 4",
        "E assert 3 == 4",
        "ERROR job 5 failed: DiskFull on vol-7",
        "[ERROR] build stopped",
        "2026-03-01 10:00:05,123 app.jobs ERROR job 5 failed",
        "error[E0382]: borrow of moved value",
        "src/a.ts(3,5): error TS2322: no",
        "src/a.py:3: error: no",
        "fatal: not a repository",
        "thread 'main' panicked at src/main.rs:2:5",
        "make: *** [all] Error 2",
        "FAILED tests/test_x.py::test_status - x",
        "--- FAIL: TestX (0.00s)",
        "1 failed, 11 passed in 0.31s",
        "Tests: 1 failed, 3 passed",
        "Found 3 errors.",
    ],
)
def test_a_certain_failure_is_found_wherever_it_stands(line):
    text = "so it goes\n" * 500 + line.replace("E ", "E   ", line[:2] == "E ") + "\nso\n" * 500

    assert fault_lines(text, is_failure=False) == line


@pytest.mark.parametrize(
    "line",
    [
        "ERROR = 5",
        "raise ValueError('no')",
        "    ValueError: where it is negative",
        "class FoldError(Exception):",
        "0 failed, 12 passed, 0 errors",
        "src/a.py:3: def error():",
        "no errors were found",
        "E = Error",
    ],
)
def test_errors_mentioned_in_a_file_are_no_failure(line):
    assert not fault_lines(f"so\n{line}\nso\n", is_failure=False)


def test_the_line_after_a_trace_tells_what_went_wrong():
    text = 'Traceback (most recent call last):\n  File "a.py", line 3\n    x()\nDiskFull: vol-7\nso'

    assert fault_lines(text, is_failure=False) == "DiskFull: vol-7"


def test_of_many_lines_each_kind_has_one_and_of_few_failed_tests_come_first():
    text = "KeyError: 1\nKeyError: 2\nFAILED b\n=== 1 failed in 3s ==="

    assert fault_lines(text) == "KeyError: 2 ¶ FAILED b ¶ 1 failed in 3s"
    assert fault_lines(text, 2) == "KeyError: 2 ¶ FAILED b"
    assert fault_lines(text, 1) == "FAILED b"
    assert fault_lines(text, 0) == ""


def test_all_failed_tests_are_named_as_far_as_there_is_room():
    text = "FAILED t.py::a - assert 1\nFAILED t.py::b - assert 2\n2 failed"
    many = "\n".join(f"FAILED tests/test_shop.py::test_case_{n} - x" for n in range(40))

    assert fault_lines(text, 1) == "FAILED t.py::a ¶ FAILED t.py::b - assert 2"
    assert 5 <= fault_lines(many, 1).count("FAILED") < 8


def test_a_long_line_is_cut():
    assert len(fault_lines("fatal: " + "x" * 9_000)) == 240


def test_a_path_counts_more_than_what_is_defined_called_and_named():
    text = "src/a.py: def total(x):\n    return round_up(x.price, setup.cfg, x)\n"

    assert dict(shown_names(text)) == {
        "src/a.py": 4,
        "total": 3,
        "round_up": 2,
        "price": 1,
        "setup.cfg": 4,
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("log.getLogger('x')", {"getLogger": CALLED_RANK}),
        ("theirName.plain", {"plain": NAMED_RANK, "theirName": NAMED_RANK}),
        ("getIt(1) getIt", {"getIt": CALLED_RANK}),
        ("1.5(", {}),
        ("see https://a.b/c/d?e=1", {"https://a.b/c/d?e=1": CALLED_RANK}),
        ("and/or plain words, 12.5 2024.", {}),
        ("</output> x" + "y_" * 200, {}),
        ("the class of type hints", {}),
        ('Traceback\n  File "<stdin>", line 3, in cursor\n', {"cursor": DEFINED_RANK}),
        ("def f(a):", {}),
    ],
)
def test_names_are_told_from_words(text, named):
    assert dict(shown_names(text)) == named


def test_a_file_has_an_ending_that_is_known():
    assert is_file("setup.py")
    assert not is_file("os.environ")


@pytest.mark.parametrize(
    "piece",
    [
        "a/",
        "a.b ",
        "def ",
        "def aa",
        " ",
        "Error: ",
        "1: ",
        "a(",
        "a://",
        "</",
        "\t",
        ", line 1",
        "1 failed, ",
        "2026-01-01 ",
        "E   ",
        "fatal: x\n",
        "=",
        "Traceback\n",
    ],
)
def test_no_text_takes_long(piece):
    text = piece * (300_000 // len(piece))

    before = time.process_time()
    shown_names(text)
    fault_lines(text)

    assert time.process_time() - before < 2


def test_an_error_is_found_in_the_last_64000_characters():
    assert fault_lines("so\nfatal: x\n" + "y" * 63_991, is_failure=False) == "fatal: x"
    assert fault_lines("so\nfatal: x\n" + "y" * 63_992, is_failure=False) == ""


def test_a_less_certain_error_is_found_in_the_last_8000_characters():
    assert fault_lines("so\nNo such file\n" + "y" * 7_987) == "No such file"
    assert fault_lines("so\nNo such file\n" + "y" * 7_988) == ""
