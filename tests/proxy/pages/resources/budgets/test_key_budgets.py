"""A key's own budget: made with it, changed, and gone with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from dashboards.access import Role
from slo.budgets.budget import Budget
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard

BOSS = Role.TEAM_ADMIN


def got(dashboard: Dashboard, method: str, path: str, sent: Any = None) -> Any:
    answer = dashboard.ask_as(BOSS, method, f"/api/v1{path}", sent)
    return answer.status, json.loads(answer.body) if answer.body else None


def made(dashboard: Dashboard, **budget: str) -> Any:
    request = {"team": dashboard.own, "name": "ci", "budget": {"limit": "25", **budget}}
    return got(dashboard, "POST", "/keys", request)


def in_force(dashboard: Dashboard) -> dict[str, Budget]:
    return {budget.name: budget for budget in dashboard.reloader.snapshot.policies.budgets}


def test_a_key_is_made_with_a_budget_that_is_in_force_before_its_secret_is_shown(
    dashboard: Dashboard,
) -> None:
    status, result = made(dashboard)
    key = result["key"]["id"]

    assert status == 201
    budget = in_force(dashboard)[key]
    assert (budget.scope, budget.of, budget.limit, budget.hard) == (
        "key",
        key,
        25_000_000_000,
        True,
    )
    own = {"name": key, "limit": "25", "unit": "usd", "window": "month", "is_own": True}
    assert result["key"]["budgets"] == [own]
    actions = {entry.action for entry in dashboard.store.audit.entries(9, who=BOSS.value)}
    assert actions == {"create key", "create budget"}


@pytest.mark.parametrize("wrong", [{"limit": "-1"}, {"window": "year"}, {"unit": "euros"}])
def test_a_key_whose_budget_breaks_a_rule_is_not_made(
    dashboard: Dashboard, wrong: dict[str, str]
) -> None:
    assert made(dashboard, **wrong)[0] == 400
    assert dashboard.store.teams.keys(dashboard.own) == []


def test_a_key_whose_budget_cannot_hold_is_revoked_before_anybody_has_it(
    dashboard: Dashboard,
) -> None:
    dashboard.refuse_snapshots()
    status, answer = made(dashboard)

    assert status == 409
    assert "No key was made, for its budget would not yet be in force: " in str(answer)
    assert "Kept" not in str(answer)
    (key,) = dashboard.store.teams.keys(dashboard.own)
    assert key.revoked_at == NOW
    assert dashboard.store.budgets.all() == []


def test_a_budget_goes_with_its_key(dashboard: Dashboard) -> None:
    key = made(dashboard)[1]["key"]["id"]
    assert got(dashboard, "DELETE", f"/keys/{key}")[0] == 204

    assert dashboard.store.budgets.all() == []


def test_a_form_sets_changes_and_removes_the_budget_of_a_key(dashboard: Dashboard) -> None:
    key, _ = dashboard.store.teams.create_key(dashboard.own, "ci", now=NOW)

    def submit(limit: str) -> str:
        sent = {"key": key.id, "limit": limit, "window": "day"}
        assert dashboard.ask_as(BOSS, "POST", "/admin/teams/key-budget", sent).status == 303
        return dashboard.ask_as(BOSS, "GET", "/admin/teams").body.decode()

    assert "$5 a day" in submit("5")
    assert "$7.5 a day" in submit("7.5")
    assert "a day</a>" not in submit("")


def test_budgets_of_others_keys_are_theirs(dashboard: Dashboard) -> None:
    key, _ = dashboard.store.teams.create_key(dashboard.other, "ci", now=NOW)
    sent = {"key": key.id, "limit": "5", "window": "day"}

    assert dashboard.ask_as(BOSS, "POST", "/admin/teams/key-budget", sent).status == 403
    assert key.id not in in_force(dashboard)


def test_budgets_of_the_policies_file_for_a_key_are_shown_with_it(
    dashboard: Dashboard, tmp_path: Path
) -> None:
    key, _ = dashboard.store.teams.create_key(dashboard.own, "ci", now=NOW)
    text = f'[[budgets]]\nname = "ci"\nscope = "key"\nof = "{key.id}"\nunit = "requests"\n'
    (tmp_path / "policies.toml").write_text(text + 'window = "minute"\nlimit = 60\n')
    assert dashboard.ask_as(Role.ADMIN, "POST", "/api/v1/configuration/reload").status < 300

    assert "60 requests a minute" in dashboard.ask_as(BOSS, "GET", "/admin/teams").body.decode()
