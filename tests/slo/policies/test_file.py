import pytest

from slo.policies.file import Policies, read
from slo.toml.nodes import parse_toml
from slo.toml.problems import InvalidFile

BUDGET = '[[budgets]]\nname = "b"\nscope = "team"\nunit = "usd"\nwindow = "month"\nlimit = 1\n'
OBJECTIVE = '[[objectives]]\nname = "b"\nmetric = "errors"\nat_most = "1%"\n'


def read_policies(text: str) -> Policies:
    return read(parse_toml(text, "policies.toml"))


def test_no_file_is_no_promise() -> None:
    assert read_policies("") == Policies()


def test_each_kind_is_read_and_may_have_the_others_names() -> None:
    found = read_policies(BUDGET + OBJECTIVE)
    assert [each.name for each in found.budgets] == ["b"]
    assert [each.name for each in found.objectives] == ["b"]


def test_problems_of_every_kind_of_entry_are_reported_by_line() -> None:
    text = OBJECTIVE.replace("errors", "error") + BUDGET.replace("team", "teem") + "[[budget]]\n"
    with pytest.raises(InvalidFile) as bad:
        read_policies(text)
    assert [problem.line for problem in bad.value.problems] == [3, 7, 11]
    assert "did you mean budgets?" in str(bad.value)
