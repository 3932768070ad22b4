import pytest

from slo.policies.file import KINDS, Policies, PolicyKind, policies_by_kind
from slo.policies.objectives import ALERT_FIELDS
from slo.toml.fields import reference
from tests.fakes.source_trees import ROOT
from tests.slo.policies.policy_files import mistakes, read_policies

BUDGET = '[[budgets]]\nname = "b"\nscope = "team"\nunit = "usd"\nwindow = "month"\nlimit = 1\n'
RESIDENCY = '[[residency]]\nname = "eu"\nregions = ["eu"]\n'
OBJECTIVE = '[[objectives]]\nname = "b"\nmetric = "errors"\nat_most = "1%"\n'


def test_no_file_is_no_promise() -> None:
    assert read_policies("") == Policies()


def test_policies_of_two_kinds_may_have_one_name() -> None:
    policies = read_policies(BUDGET + OBJECTIVE)
    assert [budget.name for budget in policies.budgets] == ["b"]
    assert [objective.name for objective in policies.objectives] == ["b"]


def test_problems_of_every_kind_of_entry_are_reported_by_line() -> None:
    text = OBJECTIVE.replace("errors", "error") + BUDGET.replace("team", "teem") + "[[budget]]\n"
    problems = mistakes(text)
    assert [problem.split(":")[1] for problem in problems] == ["3", "7", "11"]
    assert "did you mean budgets?" in problems[-1]


def test_policies_are_counted_by_every_kind_that_the_file_may_have() -> None:
    policies = read_policies(BUDGET + RESIDENCY)

    assert [kind.array for kind in KINDS] == sorted(
        Policies.__struct_fields__, key=[kind.array for kind in KINDS].index
    )
    assert {
        kind.noun: len(members) for kind, members in policies_by_kind(policies).items() if members
    } == {
        "budget": 1,
        "residency rule": 1,
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.array)
def test_readme_has_the_reference_of_every_kind_of_policy(kind: PolicyKind) -> None:
    readme = (ROOT / "slo/README.md").read_text(encoding="utf8")

    assert f"[[{kind.array}]]" in readme
    assert reference(kind.fields) in readme


def test_readme_has_the_reference_of_burn_alerts() -> None:
    assert reference(ALERT_FIELDS) in (ROOT / "slo/README.md").read_text(encoding="utf8")
