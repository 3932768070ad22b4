"""The owner of a budget says who may see and change it."""

from typing import Any

import pytest

from dashboards.access import Role, Viewer
from proxy.errors import CallerError
from proxy.pages.resources.budgets.budget_owners import BudgetOwners
from slo.budgets.budget import Budget, BudgetUnit
from slo.window import Window

OWNERS = BudgetOwners({"t1": "acme", "t2": "other"}, {"key_1": "t1", "key_2": "t2"})
BOSS = Viewer(name="ann", role=Role.TEAM_ADMIN, own_teams=frozenset({"t1"}))
ADMIN = Viewer(name="root", role=Role.ADMIN)


def a_budget(scope: str, of: str = "*") -> Budget:
    fields: dict[str, Any] = {"unit": BudgetUnit.USD, "window": Window.DAY, "limit": 1}
    return Budget(name="b", scope=scope, of=of, **fields)


@pytest.mark.parametrize(("scope", "of"), [("team", "acme"), ("key", "key_1")])
def test_a_team_admin_changes_budgets_of_own_teams_and_their_keys(scope: str, of: str) -> None:
    budget = a_budget(scope, of)

    assert OWNERS.may_see(BOSS, budget)
    assert OWNERS.check_change(BOSS, budget) == "t1"


@pytest.mark.parametrize(
    ("scope", "of", "seen"),
    [
        ("team", "other", "no"),
        ("key", "key_2", "no"),
        ("key", "key_gone", "no"),
        ("feature", "acme", "no"),
        ("user", "*", "no"),
        ("team", "*", "yes"),
        ("key", "*", "yes"),
        ("organization", "*", "yes"),
    ],
)
def test_budgets_of_others_and_of_everybody_are_an_admins(scope: str, of: str, seen: str) -> None:
    budget = a_budget(scope, of)

    assert OWNERS.may_see(BOSS, budget) == (seen == "yes")
    assert not OWNERS.may_change(BOSS, budget)
    with pytest.raises(CallerError):
        OWNERS.check_change(BOSS, budget)
    assert OWNERS.may_change(ADMIN, budget)


@pytest.mark.parametrize(("scope", "of"), [("team", "acmee"), ("key", "key_gone")])
def test_a_budget_of_nobody_is_refused(scope: str, of: str) -> None:
    with pytest.raises(CallerError, match=f"There is no {scope} {of}"):
        OWNERS.check_known(a_budget(scope, of))

    OWNERS.check_known(a_budget("feature", of))
