"""Budgets set by the API and the page, as people of each role may."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dashboards.access import Role
from proxy.store.sql.settings.stored_budgets import MAX_TEAM_BUDGETS
from slo.budgets.budget import Budget, BudgetUnit
from slo.window import Window
from tests.fakes.admission_harness import NOW
from tests.fakes.asgi import AsgiConnection
from tests.fakes.dashboard import OWN_TEAM, Dashboard

API = "/api/v1/budgets"
OWN = {"scope": "team", "of": OWN_TEAM, "unit": "usd", "window": "month", "limit": "12.5"}
EVERYBODYS = {"scope": "organization", "unit": "tokens", "window": "day", "limit": "1000"}


def put(dashboard: Dashboard, name: str, sent: dict[str, Any], role: Role = Role.ADMIN) -> Any:
    return dashboard.ask("PUT", f"{API}/{name}", document=sent, cookie=dashboard.cookies[role])


def delete(dashboard: Dashboard, name: str, role: Role = Role.ADMIN) -> AsgiConnection:
    return dashboard.ask("DELETE", f"{API}/{name}", cookie=dashboard.cookies[role])


def page(dashboard: Dashboard, role: Role = Role.ADMIN) -> str:
    result = dashboard.ask("GET", "/admin/budgets", cookie=dashboard.cookies[role])
    return result.body.decode()


def in_force(dashboard: Dashboard) -> dict[str, Budget]:
    return {budget.name: budget for budget in dashboard.reloader.snapshot.policies.budgets}


def test_a_budget_that_is_set_is_in_force_at_once(dashboard: Dashboard) -> None:
    assert put(dashboard, "own", OWN).status == 204

    assert in_force(dashboard)["own"] == Budget(
        name="own",
        scope="team",
        of=OWN_TEAM,
        unit=BudgetUnit.USD,
        window=Window.MONTH,
        limit=12_500_000_000,
    )
    assert "in-the-file" in in_force(dashboard)


def test_a_budget_is_changed_and_removed_and_each_is_audited(dashboard: Dashboard) -> None:
    put(dashboard, "own", OWN)
    assert put(dashboard, "own", {**OWN, "limit": "0.000000001", "hard": False}).status == 204
    assert (in_force(dashboard)["own"].limit, in_force(dashboard)["own"].hard) == (1, False)
    assert delete(dashboard, "own").status == 204

    assert set(in_force(dashboard)) == {"in-the-file"}
    entries = list(dashboard.store.audit.entries(99))
    changes = [entry for entry in entries if entry.action.endswith(" budget")]
    assert {change.action for change in changes} == {
        "create budget",
        "change budget",
        "remove budget",
    }
    assert {(change.who, change.team) for change in changes} == {("admin", dashboard.own)}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"limit": "1.0000000001"}, "limit is the string"),
        ({"limit": "0"}, "write more than 0"),
        ({"unit": "tokens", "limit": "1.5"}, "write a whole number"),
        ({"unit": "euro"}, "unit names"),
        ({"scope": "tea"}, "did you mean team?"),
        ({"window": 'day"\nhard = false\n#'}, "window names"),
        ({"of": ""}, "of is empty"),
    ],
)
def test_a_budget_that_breaks_a_rule_of_the_file_is_refused_with_the_fix(
    dashboard: Dashboard, changed: dict[str, str], text: str
) -> None:
    answer = put(dashboard, "own", {**OWN, **changed})

    assert answer.status == 400
    assert text in answer.body.decode().replace("\\", "")
    assert dashboard.store.budgets.all() == []


def test_a_budget_of_the_policies_file_is_changed_there(dashboard: Dashboard) -> None:
    answer = put(dashboard, "in-the-file", EVERYBODYS)

    assert answer.status == 409
    assert "change it there" in answer.body.decode()
    assert delete(dashboard, "in-the-file").status == 404


def test_a_team_admin_sets_budgets_of_own_teams_alone(dashboard: Dashboard) -> None:
    boss = Role.TEAM_ADMIN
    put(dashboard, "everybodys", EVERYBODYS)
    put(dashboard, "others", {**OWN, "of": "other"})

    assert put(dashboard, "own", OWN, boss).status == 204
    refused = [
        put(dashboard, "new", EVERYBODYS, boss),
        put(dashboard, "new", {**OWN, "of": "other"}, boss),
        put(dashboard, "new", {**OWN, "of": "*"}, boss),
        put(dashboard, "new", {**OWN, "scope": "feature"}, boss),
        put(dashboard, "others", OWN, boss),
        put(dashboard, "everybodys", OWN, boss),
        delete(dashboard, "others", boss),
        delete(dashboard, "everybodys", boss),
        put(dashboard, "own", OWN, Role.VIEWER),
    ]
    assert [answer.status for answer in refused] == [403] * len(refused)
    assert delete(dashboard, "own", boss).status == 204


def test_finance_sets_and_removes_budgets_of_all_teams_and_of_everybody(
    dashboard: Dashboard,
) -> None:
    others = {**OWN, "of": "other", "hard": False}
    budgets: dict[str, dict[str, Any]] = {"everybodys": EVERYBODYS, "others": others}
    for name, sent in budgets.items():
        assert put(dashboard, name, sent, Role.FINANCE).status == 204
    assert delete(dashboard, "others", Role.FINANCE).status == 204
    assert set(in_force(dashboard)) == {"in-the-file", "everybodys"}


def test_a_team_admin_cannot_fill_the_budgets_of_all_teams(dashboard: Dashboard) -> None:
    budget = in_force(dashboard)["in-the-file"]
    own = msgspec.structs.replace(budget, scope="team", of=OWN_TEAM)
    for number in range(MAX_TEAM_BUDGETS):
        named = msgspec.structs.replace(own, name=f"b{number}")
        dashboard.store.budgets.set(named, "ann", NOW, dashboard.own)
    refused = put(dashboard, "more", OWN, Role.TEAM_ADMIN)

    assert refused.status == 400
    assert "have 100 budgets, a team's share of 1,000; remove one first" in refused.body.decode()
    assert put(dashboard, "more", OWN, Role.ADMIN).status == 204


def test_a_team_admin_sets_a_budget_of_an_own_key(dashboard: Dashboard) -> None:
    own, _ = dashboard.store.teams.create_key(dashboard.own, "ci", now=1.0)
    others, _ = dashboard.store.teams.create_key(dashboard.other, "ci", now=1.0)
    sent = {**OWN, "scope": "key", "of": own.id}

    assert put(dashboard, "ci-month", sent, Role.TEAM_ADMIN).status == 204
    assert in_force(dashboard)["ci-month"].of == own.id
    assert put(dashboard, "x", {**sent, "of": others.id}, Role.TEAM_ADMIN).status == 403
    assert "ci-month" in page(dashboard, Role.VIEWER)
    (entry,) = dashboard.store.audit.entries(9, who="team-admin")
    assert (entry.action, entry.team) == ("create budget", dashboard.own)


def test_a_budget_of_a_team_that_does_not_exist_is_refused(dashboard: Dashboard) -> None:
    answer = put(dashboard, "own", {**OWN, "of": "acmee"})

    assert answer.status == 400
    assert "There is no team acmee" in answer.body.decode()


def test_a_member_sees_budgets_of_own_teams_and_of_everybody(dashboard: Dashboard) -> None:
    for name, sent in (
        ("own", OWN),
        ("others", {**OWN, "of": "other"}),
        ("everybodys", EVERYBODYS),
        ("features", {**OWN, "scope": "feature", "of": "hidden-one"}),
    ):
        put(dashboard, name, sent)

    shown, all_of_it = page(dashboard, Role.VIEWER), page(dashboard, Role.FINANCE)
    for name, is_seen in (("own", True), ("everybodys", True), ("others", False)):
        assert (f">{name}<" in shown) == is_seen
        assert f">{name}<" in all_of_it
    assert "hidden-one" not in shown
    assert "Set a budget" not in shown


def test_forms_of_the_page_set_change_and_remove_a_budget(dashboard: Dashboard) -> None:
    cookie = dashboard.cookies[Role.ADMIN]

    def submit(path: str, **fields: str) -> int:
        sent = {"name": "own", **fields}
        return dashboard.ask("POST", f"/admin/budgets/{path}", document=sent, cookie=cookie).status

    assert submit("set", **OWN, hard="yes") == 303
    assert "Change own" in page(dashboard)
    assert "12.5 usd" in page(dashboard)
    assert submit("set", **{**OWN, "limit": "13"}) == 303
    assert in_force(dashboard)["own"].limit == 13_000_000_000
    assert not in_force(dashboard)["own"].hard
    assert submit("remove") == 303
    assert "None yet." in page(dashboard)


def test_budget_that_is_kept_and_cannot_be_adopted_is_said_to_be_kept(dashboard: Dashboard) -> None:
    dashboard.refuse_snapshots()
    answer = put(dashboard, "own", OWN)

    assert answer.status == 409
    assert "Kept, but not yet in force: " in answer.body.decode()
    assert "no room for it" in answer.body.decode()
    assert "not in force" in page(dashboard)
    for path in ("set", "undo"):
        fields = {"name": "own", **OWN, "hard": "yes", "form_page": "/admin/budgets"}
        html = dashboard.ask_as(Role.ADMIN, "POST", f"/admin/budgets/{path}", fields).body.decode()
        assert "<h1>Kept, but not yet in force</h1>" in html
        assert "cannot be done" not in html
        assert 'href="/admin/budgets">Back' in html


def test_budget_is_in_force_at_once_though_the_policies_file_is_broken(
    dashboard: Dashboard, tmp_path: Path
) -> None:
    (tmp_path / "policies.toml").write_text("[[budgets]]\n", encoding="utf8")

    assert put(dashboard, "own", OWN).status == 204
    assert "own" in in_force(dashboard)
