from compaction.facts.errors import errors
from tests.compaction.facts.regions import asked, called, parted, texts

TRACE = "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n"


def test_what_went_wrong_stays_where_the_call_was_made_again_and_that_it_was_mended():
    part = parted(called("bash", TRACE, "a", command="x"), called("bash", "ok", "b", command="x"))

    assert texts(errors(part)) == ["bash(command=x): KeyError: 'x' (went well later)"]


def test_an_error_that_stays_is_not_said_to_be_mended_and_stands_once():
    part = parted(
        called("bash", "ok", "a", command="x"),
        called("bash", TRACE, "b", command="x"),
        called("bash", "so\n" * 60 + TRACE, "c", command="x"),
        called("bash", "so\n" * 60 + TRACE, "d", command="x"),
        called("bash", "so\n" * 60 + "OSError: y", "e", command="x"),
    )

    assert texts(errors(part)) == ["bash(command=x): KeyError: 'x'"]


def test_what_the_line_of_its_command_says_is_not_said_twice():
    assert texts(errors(parted(called("bash", "Error: no", command="x")))) == []
    assert texts(errors(parted(asked("", "", "Error: no"), asked("", "", "Error: no")))) == []


def test_what_the_latest_of_equal_calls_tells_is_not_said_of_the_others():
    part = parted(called("bash", TRACE, "a", command="x"), called("bash", TRACE, "b", command="x"))

    assert texts(errors(part)) == []


def test_a_search_that_found_nothing_is_no_error():
    none = "<returncode>1</returncode>\n<output>\n</output>"
    part = parted(called("bash", none, "a", command="x"), called("bash", none, "b", command="x"))

    assert texts(errors(part)) == []
