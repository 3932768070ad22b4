"""The audit log over the API."""

import json
from typing import Any

import pytest

from dashboards.access import Role
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard


def entries(dashboard: Dashboard, query: str = "") -> Any:
    answer = dashboard.ask_as(Role.ADMIN, "GET", f"/api/v1/audit?{query}")
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def test_changes_are_listed_page_by_page_and_by_person_and_team(dashboard: Dashboard) -> None:
    for number in range(5):
        name = f"team {number}"
        dashboard.store.teams.create(name, now=NOW + 1 + number, who="mei")

    first = entries(dashboard, "limit=2")
    assert [entry["subject"] for entry in first["entries"]] == ["team 4", "team 3"]
    rest = entries(dashboard, f"limit=3&after={first['next']}")
    assert [entry["subject"] for entry in rest["entries"]] == ["team 2", "team 1", "team 0"]
    mine = entries(dashboard, "who=mei")
    assert (len(mine["entries"]), mine["next"]) == (5, None)
    (made,) = entries(dashboard, f"team={dashboard.own}")["entries"]
    assert (made["action"], made["before"]) == ("create team", None)
    assert made["after"] == {"name": "acme", "keeps_prompts": False}


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "after=%00", "after=A'--", "limit=x"])
def test_a_query_that_is_none_is_refused(dashboard: Dashboard, query: str) -> None:
    assert dashboard.ask_as(Role.ADMIN, "GET", f"/api/v1/audit?{query}").status == 422


def test_finance_sees_changes_of_budgets_reports_and_prices_and_no_others(
    dashboard: Dashboard,
) -> None:
    store = dashboard.store
    store.policies.set("reports", {"name": "weekly"}, "ann", 1.0)
    store.policies.set("models", {"name": "m"}, "ann", 1.0)
    store.policies.set("sinks", {"name": "s"}, "ann", 1.0)
    store.teams.create("secret-team", now=1.0, who="ann")
    budget = {"scope": "organization", "unit": "usd", "window": "month", "limit": "5"}
    dashboard.ask_as(Role.FINANCE, "PUT", "/api/v1/budgets/all", budget)

    answer = dashboard.ask_as(Role.FINANCE, "GET", "/api/v1/audit?limit=200").body
    entries = json.loads(answer)["entries"]
    assert {entry["action"] for entry in entries} == {
        "create budget",
        "create report",
        "create model",
    }
    html = dashboard.ask_as(Role.FINANCE, "GET", "/admin/audit").body.decode()
    assert "of budgets, scheduled reports, models and prices that a person made" in html
    assert "secret-team" not in html.partition('id="changes"')[2]
