from dataclasses import replace

from slo.toml.problems import MAX_PROBLEMS_SHOWN, InvalidFile, Problem, report

WRONG = Problem(
    file="catalog.toml", line=14, where="models.gpt-x.input", what="is 2.5", fix='write "2.50"'
)
ODD = Problem(file="catalog.toml", line=3, where="", what="looks odd", fix="check it", warning=True)


def test_a_problem_is_one_line_with_its_file_its_line_and_its_fix() -> None:
    assert str(WRONG) == 'catalog.toml:14: models.gpt-x.input: is 2.5; write "2.50"'
    assert str(ODD) == "catalog.toml:3: warning: looks odd; check it"


def test_a_report_goes_by_line() -> None:
    assert report([WRONG, ODD]).splitlines() == [str(ODD), str(WRONG)]


def test_an_invalid_file_carries_every_problem_by_line() -> None:
    error = InvalidFile([WRONG, ODD])
    assert error.problems == (ODD, WRONG)
    assert str(error) == report([WRONG, ODD])


def test_a_report_of_very_many_problems_shows_the_first_and_counts_the_rest() -> None:
    many = [replace(WRONG, line=line) for line in range(MAX_PROBLEMS_SHOWN + 3, 0, -1)]
    lines = report(many).splitlines()
    assert len(lines) == MAX_PROBLEMS_SHOWN + 1
    assert lines[0].startswith("catalog.toml:1: ")
    assert lines[-1] == "and 3 more"
