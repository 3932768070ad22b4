import pytest

from compaction.results.command_outcomes import CallOutcome, indicates_failure
from tests.compaction.facts.regions import call_and_result, read_contents


@pytest.mark.parametrize(
    "result",
    [
        "Error: no such user",
        " fatal: not a repository",
        '{"error": "denied"}',
        "ok\nKeyError: x",
        "<returncode>2</returncode>",
        "x" * 5_000 + "\nValueError: y",
        "sh: foo: command not found",
        "cat: a: No such file or directory",
        "Failed to build",
    ],
)
def test_a_failure_is_known(result):
    assert indicates_failure(result)


@pytest.mark.parametrize(
    "result",
    [
        "",
        "ok",
        '{"error": null, "id": 1}',
        "<returncode>0</returncode>",
        "no errors found",
        "x" * 1_000 + "\nKeyError: y\n" + "x" * 1_000,
    ],
)
def test_other_results_are_none(result):
    assert not indicates_failure(result)


WORDS = "so it goes\n" * 20


def outcome_of(result: str, **arguments: str) -> CallOutcome:
    (exchange,) = read_contents(call_and_result("sh", result, **arguments)).exchanges
    return CallOutcome(exchange.called, exchange.result)


@pytest.mark.parametrize(
    ("result", "text"),
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
def test_record_of_a_command_gives_its_exit_status_and_error(result, text):
    assert outcome_of(result, cmd="x").text() == text


def test_no_reason_is_said_where_no_line_is_asked_for():
    assert outcome_of(WORDS + "no luck; exit 2", cmd="x").text(0) == "exit 2"


def test_a_search_that_found_nothing_did_not_fail():
    miss = outcome_of(WORDS + "exit code 1", cmd="make; grep -r x .")

    assert miss.text() == "exit 1"
    assert not miss.has_failed
    assert outcome_of("<returncode>1</returncode>", cmd="grep x").text() == "exit 1, nothing found"


def test_an_error_that_a_log_tells_of_went_wrong_whatever_the_exit():
    log_outcome = outcome_of(WORDS + "ERROR disk full\n" + WORDS + "exit 0", cmd="cat log")

    assert log_outcome.has_failed
    assert not log_outcome.is_wrong
    assert not outcome_of(WORDS, cmd="x").has_failed
    assert outcome_of("KeyError: x", cmd="x").has_failed


def test_a_failure_is_told_within_400_characters_of_an_end():
    trace, other_text = "Traceback (most recent", "x" * 1_000

    assert indicates_failure("x" * 377 + "\n" + trace + other_text)
    assert not indicates_failure("x" * 378 + "\n" + trace + other_text)
    assert indicates_failure(other_text + "\n" + trace + "x" * 378)
    assert not indicates_failure(other_text + "\n" + trace + "x" * 379)


def test_an_exit_status_is_told_within_200_characters_of_an_end():
    status, other_text = " exit code 3\n", "x" * 1_000

    assert outcome_of("x" * 188 + status + other_text).exit == "exit 3"
    assert outcome_of("x" * 189 + status + other_text).exit == ""
    assert outcome_of(other_text + status + "x" * 188).exit == "exit 3"
    assert outcome_of(other_text + status + "x" * 189).exit == ""


def test_an_answer_of_120_characters_is_said_whole_and_a_longer_one_is_not():
    assert outcome_of("x" * 120).text() == "x" * 120
    assert outcome_of("x" * 121).text() == ""


def test_of_a_last_line_160_characters_stay():
    assert outcome_of(f"{WORDS}exit 2\n{'x' * 160}").text() == f"exit 2: {'x' * 160}"
    assert outcome_of(f"{WORDS}exit 2\n{'x' * 161}").text() == f"exit 2: {'x' * 160}"
