from proxy.catalog.problems import BadCatalog, Problem, report

WRONG = Problem(
    file="catalog.toml", line=14, where="models.gpt-x.input", what="is 2.5", fix='write "2.50"'
)
ODD = Problem(file="catalog.toml", line=3, where="", what="looks odd", fix="check it", warning=True)


def test_a_problem_is_one_line_with_its_file_its_line_and_its_fix() -> None:
    assert str(WRONG) == 'catalog.toml:14: models.gpt-x.input: is 2.5; write "2.50"'
    assert str(ODD) == "catalog.toml:3: warning: looks odd; check it"


def test_a_report_goes_by_line() -> None:
    assert report([WRONG, ODD]).splitlines() == [str(ODD), str(WRONG)]


def test_a_bad_catalog_carries_and_says_every_problem() -> None:
    error = BadCatalog([WRONG, ODD])
    assert error.problems == (WRONG, ODD)
    assert str(error) == report([WRONG, ODD])
