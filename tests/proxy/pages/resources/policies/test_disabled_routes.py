"""Routes and models that administrators disable: previews, changes and the words on pages."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from dashboards.access import Role
from proxy.records.receipt import Outcome
from proxy.store.sql.ids import call_ids
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.settings.stored_policies import DISABLED_ROUTES, policy_changes
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard
from tests.fakes.receipts import a_receipt

MODEL = "gpt-5.4"
#: A model's only route.
ROUTE = {"kind": "route", "name": "openai/gpt-5.4"}


def post(dashboard: Dashboard, path: str, **document: Any) -> int:
    return dashboard.ask_as(Role.ADMIN, "POST", path, document=document).status


def page(dashboard: Dashboard, path: str, role: Role = Role.ADMIN) -> str:
    return dashboard.ask_as(role, "GET", f"/admin{path}").body.decode()


def preview(dashboard: Dashboard, **fields: str) -> str:
    path = "/admin/models/disable/preview"
    answer = dashboard.ask_as(Role.ADMIN, "POST", path, document=fields)
    assert answer.status == 200, answer.body
    return answer.body.decode()


def test_a_preview_says_whose_calls_would_be_refused_and_counts_the_last_hour(
    dashboard: Dashboard,
) -> None:
    call_id = call_ids()(NOW - 60)
    call = a_receipt(0, call_id=call_id, route=ROUTE["name"], team=dashboard.own, started=NOW - 60)
    assert inserter(dashboard.store._engine)([call]) is None
    html = preview(dashboard, **ROUTE)

    assert "calls of gpt-5.4 would get 503" in html
    assert "1 call ended there" in html
    assert "Refuse these calls with 503" in html
    assert "/admin/models/disable" in html


def test_the_page_of_models_says_since_when_a_route_fails_and_by_which_error(
    dashboard: Dashboard,
) -> None:
    failed = a_receipt(
        0, call_id=call_ids()(NOW - 60), route=ROUTE["name"], team=dashboard.own, started=NOW - 60,
        outcome=Outcome.FAILED, error="upstream_overloaded",
        upstream_error="529 overloaded_error: busy",
    )  # fmt: skip
    assert inserter(dashboard.store._engine)([failed]) is None
    html = page(dashboard, "/models?q=gpt-5.4")

    assert '<span class="state missed">fails</span>' in html
    assert "no answer in this time (UTC)" in html
    assert "upstream overloaded: 529 overloaded_error: busy" in html
    assert "529" not in page(dashboard, "/models?q=gpt-5.4", Role.VIEWER)


@pytest.mark.parametrize("kind", ["route", "model"])
def test_the_last_route_is_disabled_by_consent_and_is_seen_until_it_is_enabled(
    dashboard: Dashboard, kind: str
) -> None:
    disabled = {"kind": kind, "name": MODEL if kind == "model" else ROUTE["name"]}
    assert post(dashboard, "/api/v1/disabled-routes", **disabled) == 409
    form = {**disabled, "hours": "1", "why": "it fails", "refuses_calls": "yes", "seen": ""}
    answer = dashboard.ask_as(Role.ADMIN, "POST", "/admin/models/disable", document=form)
    assert answer.headers["location"] == f"/admin/models?{urlencode({'q': disabled['name']})}"

    for path in ("", "/now", "/models"):
        html = page(dashboard, path)
        assert f"{kind} {disabled['name']}" in html
        assert "by admin since" in html
        assert "it fails" in html
    assert 'aria-label="Enable' in page(dashboard, "/models")
    (one,) = json.loads(dashboard.ask_as(Role.ADMIN, "GET", "/api/v1/disabled-routes").body)
    enabled = {**disabled, "seen": one["change"]}
    again = dashboard.ask_as(Role.ADMIN, "POST", "/admin/models/enable", document=enabled)
    assert again.headers["location"] == answer.headers["location"]
    assert "Disabled:" not in page(dashboard, "/models")
    entries = dashboard.store.audit.entries(200, who="admin")
    assert sorted(entry.action for entry in entries) == ["disable", "enable"]


def test_a_person_of_one_team_sees_what_is_disabled_but_not_by_whom_or_why(
    dashboard: Dashboard,
) -> None:
    post(dashboard, "/api/v1/disabled-routes", **ROUTE, why="secret", refuses_calls=True)
    answer = dashboard.ask_as(Role.VIEWER, "GET", "/api/v1/disabled-routes")
    (one,) = json.loads(answer.body)

    assert (one["name"], one["who"], one["why"]) == (ROUTE["name"], "", "")
    assert "disable/preview" not in page(dashboard, "/models", Role.VIEWER)


def test_a_change_that_was_not_seen_is_not_overwritten(dashboard: Dashboard) -> None:
    post(dashboard, "/api/v1/disabled-routes", **ROUTE, refuses_calls=True)
    form = {**ROUTE, "refuses_calls": "yes", "seen": ""}
    assert post(dashboard, "/admin/models/disable", **form) == 409


@pytest.mark.parametrize("path", ["/admin/models/enable", "/api/v1/disabled-routes/enable"])
def test_a_route_that_another_person_disabled_again_is_not_enabled(
    dashboard: Dashboard, path: str
) -> None:
    key = f"route {ROUTE['name']}"
    earlier = {"name": key, "until": None, "why": ""}
    dashboard.store.policies.set(DISABLED_ROUTES, earlier, "ann", NOW - 1)
    seen = dashboard.store.audit.last_change(key, policy_changes(DISABLED_ROUTES))
    assert seen is not None
    post(dashboard, "/api/v1/disabled-routes", **ROUTE, refuses_calls=True)
    (one,) = json.loads(dashboard.ask_as(Role.ADMIN, "GET", "/api/v1/disabled-routes").body)

    assert post(dashboard, path, **ROUTE, seen=seen.id) == 409
    assert post(dashboard, path, **ROUTE, seen=one["change"]) in {204, 303}


def test_a_route_whose_time_is_over_is_disabled_no_more_and_cannot_be_enabled(
    dashboard: Dashboard,
) -> None:
    fields = {"name": f"route {ROUTE['name']}", "until": NOW, "why": ""}
    dashboard.store.policies.set(DISABLED_ROUTES, fields, "ann", NOW - 1)
    assert post(dashboard, "/api/v1/disabled-routes/enable", **ROUTE) == 404
    assert dashboard.store.policies.all() == []


@pytest.mark.parametrize("text", ["a\x00b", "a\u202eb", "a\nb"])
@pytest.mark.parametrize("field", ["name", "why"])
def test_texts_that_do_not_print_are_refused(dashboard: Dashboard, field: str, text: str) -> None:
    fields = {**ROUTE, "refuses_calls": True, field: text}
    assert post(dashboard, "/api/v1/disabled-routes", **fields) == 422
    if field == "name":
        assert post(dashboard, "/api/v1/disabled-routes/enable", **fields) == 422


@pytest.mark.parametrize(
    ("path", "name"), [("/disabled-routes", "unknown"), ("/disabled-routes/enable", ROUTE["name"])]
)
def test_an_unknown_route_is_not_disabled_or_enabled(
    dashboard: Dashboard, path: str, name: str
) -> None:
    assert post(dashboard, f"/api/v1{path}", kind="route", name=name) == 404


def test_a_disabled_route_is_no_policy_of_the_forms(dashboard: Dashboard) -> None:
    post(dashboard, "/api/v1/disabled-routes", **ROUTE, refuses_calls=True)
    answer = dashboard.ask_as(Role.ADMIN, "GET", "/api/v1/policies/stored")
    assert json.loads(answer.body) == {"policies": []}
