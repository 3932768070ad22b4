import pytest

from compaction.facts.outcome import Outcome
from tests.compaction.facts.regions import called, parted

WORDS = "so it goes\n" * 20


def ended(result: str, **arguments: str) -> Outcome:
    (each,) = parted(called("sh", result, **arguments)).exchanges
    return Outcome(each)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("", ""),
        ("fine", "fine"),
        ("exit code: 0", "exit code: 0"),
        (WORDS, ""),
        (WORDS + "exit 0", ""),
        (
            f"<returncode>2</returncode>\n<output>{WORDS}no such luck</output>",
            "exit 2: no such luck",
        ),
        (WORDS + "KeyError: x", "KeyError: x"),
        (WORDS + "Error: x\nexit 3", "exit 3: Error: x"),
    ],
)
def test_its_exit_and_what_went_wrong_are_said(result, said):
    assert ended(result, cmd="x").said() == said


def test_no_reason_is_said_where_no_line_is_asked_for():
    assert ended(WORDS + "no luck; exit 2", cmd="x").said(0) == "exit 2"


def test_a_search_that_found_nothing_did_not_fail():
    miss = ended(WORDS + "exit code 1", cmd="make; grep -r x .")

    assert miss.said() == "exit 1"
    assert not miss.went_wrong
    assert ended("<returncode>1</returncode>", cmd="grep x").said() == "exit 1, nothing found"


def test_an_error_that_a_log_tells_of_went_wrong_whatever_the_exit():
    told = ended(WORDS + "ERROR disk full\n" + WORDS + "exit 0", cmd="cat log")

    assert told.went_wrong
    assert not told.is_wrong
    assert not ended(WORDS, cmd="x").went_wrong
    assert ended("KeyError: x", cmd="x").went_wrong
