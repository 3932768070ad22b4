"""Roles: what each may see and change, and of which teams."""

import pytest

from dashboards.access import Action, Role, Viewer

OWN = frozenset({"team_a"})


def viewer(role: Role) -> Viewer:
    return Viewer(name="ann", role=role, own_teams=OWN)


@pytest.mark.parametrize("role", [Role.FINANCE, Role.ADMIN])
def test_finance_and_admins_see_all_teams(role: Role) -> None:
    assert viewer(role).teams is None
    assert viewer(role).may(Action.SEE_COSTS, "team_b")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.TEAM_ADMIN])
def test_members_see_their_own_teams_only(role: Role) -> None:
    assert viewer(role).teams == OWN
    assert viewer(role).may(Action.SEE_COSTS, "team_a")
    assert not viewer(role).may(Action.SEE_COSTS, "team_b")


def test_an_admin_may_do_everything() -> None:
    assert all(viewer(Role.ADMIN).may(action) for action in Action)


@pytest.mark.parametrize(
    ("role", "changes"), [(Role.VIEWER, set()), (Role.FINANCE, {Action.CHANGE_BUDGETS})]
)
def test_viewers_change_nothing_and_finance_budgets_and_neither_sees_a_call(
    role: Role, changes: set[Action]
) -> None:
    allowed = {action for action in Action if viewer(role).may(action)}
    assert {action for action in allowed if action.startswith("change")} == changes
    assert not allowed & {Action.SEE_CALLS, Action.SEE_ALL_CHANGES}


def test_a_team_admin_changes_keys_of_the_own_team_but_no_people() -> None:
    assert viewer(Role.TEAM_ADMIN).may(Action.CHANGE_KEYS, "team_a")
    assert not viewer(Role.TEAM_ADMIN).may(Action.CHANGE_KEYS, "team_b")
    assert not viewer(Role.TEAM_ADMIN).may(Action.CHANGE_USERS)
