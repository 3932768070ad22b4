"""Every route of the dashboard, as the app has them: who may use it, and from where.

The table names each route once, with the roles that may use it; a route that is not in it fails.
"""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from dashboards.access import Role
from proxy.pages.resources.api import API_PATH
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope
from proxy.store.sql.access.teams import KeyLimits
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import (
    CALL,
    NOW,
    FakeBoard,
    a_counter,
    a_pin,
    a_reroute,
    a_rerouted_call,
    an_objective,
    an_open_alert,
    overview,
)
from tests.fakes.dashboard import Dashboard, PageEndpoint, fill_path
from tests.fakes.receipts import a_receipt

EVIL: Final = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"
OPEN: Final = None
EVERYBODY: Final = frozenset(Role)
TEAM_ADMINS: Final = frozenset({Role.TEAM_ADMIN, Role.ADMIN})
ADMINS: Final = frozenset({Role.ADMIN})
SEE_ALL: Final = frozenset({Role.FINANCE, Role.ADMIN})
SET_BUDGETS: Final = TEAM_ADMINS | SEE_ALL
_API: Final = API_PATH
BUDGET: Final = {"scope": "team", "of": "acme", "unit": "usd", "window": "month", "limit": "5"}
CEILING: Final = {"table": "ceilings", "name": "x", "limit": "5"}

#: Roles that may use each route, OPEN for those before a sign-in, and what is sent.
ROUTES: Final[dict[tuple[str, str], tuple[frozenset[Role] | None, Any]]] = {
    ("GET", "/admin/static/{name}"): (OPEN, None),
    ("GET", "/admin/sign-in"): (OPEN, None),
    ("POST", "/admin/sign-in"): (OPEN, {"name": "x", "password": "x"}),
    ("POST", "/admin/sign-out"): (OPEN, {}),
    ("GET", "/admin/"): (OPEN, None),
    ("GET", "/me"): (OPEN, None),
    ("POST", "/me"): (OPEN, {"key": "tg-x"}),
    ("POST", "/me/leave"): (OPEN, {}),
    ("GET", "/v1/thriftgate/usage"): (OPEN, None),
    ("GET", "/admin"): (EVERYBODY, None),
    ("GET", "/admin/calls/{call_id}"): (TEAM_ADMINS, None),
    ("GET", "/admin/calls"): (TEAM_ADMINS, None),
    ("GET", "/admin/cache"): (EVERYBODY, None),
    ("GET", "/admin/cache/{call_id}"): (TEAM_ADMINS, None),
    ("GET", "/admin/savings"): (EVERYBODY, None),
    ("GET", "/admin/fast-path"): (EVERYBODY, None),
    ("POST", "/admin/fast-path"): (
        TEAM_ADMINS,
        {"team": "{team}", "feature": "chat", "part": "drafts", "is_on": "false"},
    ),
    ("GET", f"{_API}/fast-path"): (EVERYBODY, None),
    ("PUT", f"{_API}/fast-path/{{team}}/{{feature}}/{{part}}"): (TEAM_ADMINS, {"is_on": False}),
    ("GET", "/admin/replay"): (EVERYBODY, None),
    ("POST", "/admin/replay"): (EVERYBODY, {}),
    ("GET", "/admin/now"): (EVERYBODY, None),
    ("GET", f"{_API}/minutes"): (EVERYBODY, None),
    ("GET", "/admin/latency"): (EVERYBODY, None),
    ("GET", "/admin/costs"): (EVERYBODY, None),
    ("GET", "/admin/reports"): (EVERYBODY, None),
    ("GET", "/admin/reports/print"): (EVERYBODY, None),
    ("GET", "/admin/objectives"): (EVERYBODY, None),
    ("POST", "/admin/objectives/pin"): (ADMINS, {"name": "x", "level": "1", "for": "1h"}),
    ("POST", "/admin/objectives/pin/preview"): (ADMINS, {"name": "x", "level": "1", "for": "1h"}),
    ("POST", "/admin/objectives/release"): (ADMINS, {"name": "x"}),
    ("POST", "/admin/objectives/undo"): (ADMINS, {"name": "x"}),
    ("GET", "/admin/budgets"): (EVERYBODY, None),
    ("GET", "/admin/alerts/{alert_id}"): (SEE_ALL, None),
    ("POST", "/admin/alerts/{alert_id}/acknowledge"): (ADMINS, {}),
    ("POST", "/admin/alerts/{alert_id}/snooze"): (ADMINS, {"hours": "1"}),
    ("POST", "/admin/budgets/set"): (SET_BUDGETS, {"name": "x", **BUDGET}),
    ("POST", "/admin/budgets/preview"): (SET_BUDGETS, {"name": "x", **BUDGET}),
    ("POST", "/admin/budgets/undo"): (SET_BUDGETS, {"name": "x"}),
    ("POST", "/admin/budgets/remove"): (SET_BUDGETS, {"name": "x"}),
    ("POST", "/admin/budgets/test-sink"): (ADMINS, {"name": "x"}),
    ("POST", "/admin/reports/send"): (ADMINS, {"name": "x"}),
    ("GET", "/admin/layouts"): (EVERYBODY, None),
    ("GET", "/admin/layouts/{team}/{feature:path}"): (EVERYBODY, None),
    ("POST", "/admin/layouts/{team}/{feature:path}"): (
        TEAM_ADMINS,
        {"change": "mode", "mode": "off"},
    ),
    ("GET", "/admin/models"): (EVERYBODY, None),
    ("GET", "/admin/engines"): (EVERYBODY, None),
    ("GET", "/admin/settings"): (ADMINS, None),
    ("POST", "/admin/settings/reload"): (ADMINS, {}),
    ("GET", "/admin/teams"): (EVERYBODY, None),
    ("POST", "/admin/teams/create"): (ADMINS, {"name": "new"}),
    ("POST", "/admin/teams/prompts"): (ADMINS, {"team": "x", "keep": "yes"}),
    ("POST", "/admin/teams/create-key"): (TEAM_ADMINS, {"team": "{team}"}),
    ("POST", "/admin/teams/revoke-key"): (TEAM_ADMINS, {"key": "key_x"}),
    ("POST", "/admin/teams/key-budget"): (SET_BUDGETS, {"key": "key_x", "limit": ""}),
    ("GET", "/admin/people"): (ADMINS, None),
    ("POST", "/admin/people/add"): (ADMINS, {"name": "new", "role": "admin"}),
    ("POST", "/admin/people/change"): (ADMINS, {"person": "x", "change": "link"}),
    ("GET", "/admin/account"): (EVERYBODY, None),
    ("POST", "/admin/account/password"): (EVERYBODY, {"password": "x", "again": "x"}),
    ("POST", "/admin/account/end-session"): (EVERYBODY, {"session": "x"}),
    ("GET", "/admin/audit"): (SEE_ALL, None),
    ("GET", f"{_API}/openapi.json"): (OPEN, None),
    ("GET", f"{_API}/session"): (EVERYBODY, None),
    ("GET", f"{_API}/objectives"): (EVERYBODY, None),
    ("PUT", f"{_API}/objectives/{{name}}/pin"): (ADMINS, {"level": 1, "seconds": 60}),
    ("DELETE", f"{_API}/objectives/{{name}}/pin"): (ADMINS, None),
    ("POST", f"{_API}/objectives/{{name}}/pin/undo"): (ADMINS, None),
    ("GET", f"{_API}/events"): (EVERYBODY, None),
    ("POST", f"{_API}/deploys"): (ADMINS, {"name": "shop 4.2"}),
    ("POST", "/admin/policies/preview"): (ADMINS, CEILING),
    ("POST", "/admin/policies/set"): (ADMINS, CEILING),
    ("POST", "/admin/policies/remove"): (ADMINS, {"table": "ceilings", "name": "x"}),
    ("POST", "/admin/policies/undo"): (ADMINS, {"table": "ceilings", "name": "x"}),
    ("GET", f"{_API}/policies/stored"): (SEE_ALL, None),
    ("GET", f"{_API}/budgets"): (EVERYBODY, None),
    ("GET", f"{_API}/budgets/stored"): (EVERYBODY, None),
    ("PUT", f"{_API}/budgets/{{name}}"): (SET_BUDGETS, BUDGET),
    ("DELETE", f"{_API}/budgets/{{name}}"): (SET_BUDGETS, None),
    ("GET", f"{_API}/alerts"): (EVERYBODY, None),
    ("GET", f"{_API}/features"): (EVERYBODY, None),
    ("GET", f"{_API}/features/{{team}}/{{feature}}"): (EVERYBODY, None),
    ("PUT", f"{_API}/features/{{team}}/{{feature}}/mode"): (TEAM_ADMINS, {"mode": "off"}),
    ("PUT", f"{_API}/features/{{team}}/{{feature}}/layout"): (TEAM_ADMINS, {"version": 1}),
    ("POST", f"{_API}/features/{{team}}/{{feature}}/resume"): (TEAM_ADMINS, {}),
    ("PUT", f"{_API}/features/{{team}}/{{feature}}/compaction"): (TEAM_ADMINS, {"mode": "off"}),
    ("POST", "/admin/models/disable/preview"): (ADMINS, {"kind": "model", "name": "x"}),
    ("POST", "/admin/models/disable"): (ADMINS, {"kind": "model", "name": "x"}),
    ("POST", "/admin/models/enable"): (ADMINS, {"kind": "model", "name": "x"}),
    ("GET", f"{_API}/disabled-routes"): (EVERYBODY, None),
    ("POST", f"{_API}/disabled-routes"): (ADMINS, {"kind": "model", "name": "x"}),
    ("POST", f"{_API}/disabled-routes/enable"): (ADMINS, {"kind": "model", "name": "x"}),
    ("GET", f"{_API}/models"): (EVERYBODY, None),
    ("GET", f"{_API}/engines"): (EVERYBODY, None),
    ("GET", f"{_API}/engines/speculation"): (EVERYBODY, None),
    ("GET", f"{_API}/engines/warming"): (EVERYBODY, None),
    ("GET", f"{_API}/configuration"): (ADMINS, None),
    ("POST", f"{_API}/configuration/reload"): (ADMINS, None),
    ("GET", f"{_API}/costs"): (EVERYBODY, None),
    ("GET", f"{_API}/costs/table"): (EVERYBODY, None),
    ("GET", f"{_API}/savings"): (EVERYBODY, None),
    ("GET", f"{_API}/cache"): (EVERYBODY, None),
    ("GET", f"{_API}/cache/misses/{{call_id}}"): (TEAM_ADMINS, None),
    ("GET", f"{_API}/latency"): (EVERYBODY, None),
    ("GET", f"{_API}/calls"): (TEAM_ADMINS, None),
    ("GET", f"{_API}/calls.csv"): (TEAM_ADMINS, None),
    ("GET", f"{_API}/calls/{{call_id}}"): (TEAM_ADMINS, None),
    ("GET", f"{_API}/reports/cost"): (EVERYBODY, None),
    ("GET", f"{_API}/reports/scheduled"): (EVERYBODY, None),
    ("POST", f"{_API}/reports/scheduled/{{name}}/send"): (ADMINS, {}),
    ("GET", f"{_API}/alerts/{{alert_id}}"): (SEE_ALL, None),
    ("POST", f"{_API}/alerts/{{alert_id}}/acknowledge"): (ADMINS, None),
    ("POST", f"{_API}/alerts/{{alert_id}}/snooze"): (ADMINS, {"hours": 1}),
    ("GET", f"{_API}/alerts/sinks"): (ADMINS, None),
    ("POST", f"{_API}/alerts/sinks/{{name}}/test"): (ADMINS, None),
    ("GET", f"{_API}/teams"): (EVERYBODY, None),
    ("POST", f"{_API}/teams"): (ADMINS, {"name": "new"}),
    ("PUT", f"{_API}/teams/{{team}}/prompts"): (ADMINS, {"keeps_prompts": True}),
    ("GET", f"{_API}/keys"): (TEAM_ADMINS, None),
    ("POST", f"{_API}/keys"): (TEAM_ADMINS, {"team": "{team}"}),
    ("DELETE", f"{_API}/keys/{{key}}"): (TEAM_ADMINS, None),
    ("GET", f"{_API}/people"): (ADMINS, None),
    ("POST", f"{_API}/people"): (ADMINS, {"name": "new", "role": "admin"}),
    ("POST", f"{_API}/people/{{person}}/link"): (ADMINS, None),
    ("PUT", f"{_API}/people/{{person}}/role"): (ADMINS, {"role": "admin"}),
    ("PUT", f"{_API}/people/{{person}}/state"): (ADMINS, {"is_disabled": False}),
    ("GET", f"{_API}/account"): (EVERYBODY, None),
    ("PUT", f"{_API}/account/password"): (EVERYBODY, {"password": "x"}),
    ("DELETE", f"{_API}/account/sessions/{{session}}"): (EVERYBODY, None),
    ("GET", f"{_API}/audit"): (SEE_ALL, None),
}


@pytest.fixture
def board() -> FakeBoard:
    return FakeBoard()


@pytest.fixture
def dashboard(store: Store, tmp_path: Path, board: FakeBoard) -> Iterator[Dashboard]:
    made = Dashboard(store, tmp_path, board)
    missed: dict[str, Any] = {"conversation": "c" * 32, "miss": "expired", "expected_read": 1_000}
    receipt = a_receipt(0, call_id=CALL, team=made.own, started=NOW - 60, **missed)
    assert inserter(store._engine)([receipt]) is None
    yield made
    made.close()


def ask_route(dashboard: Dashboard, endpoint: PageEndpoint, **headers: Any) -> AsgiConnection:
    """Ask a route about a team of the person's own."""
    _, sent = ROUTES[endpoint.method, endpoint.path]
    names = {"call_id": CALL, "name": "admin.css", "part": "drafts"}
    path = fill_path(endpoint.path, team=dashboard.own, **names)
    if isinstance(sent, dict):
        sent = {name: dashboard.own if value == "{team}" else value for name, value in sent.items()}
    return dashboard.ask(endpoint.method, path, document=sent, **headers)


def protected_routes(dashboard: Dashboard) -> Iterator[PageEndpoint]:
    """The routes that need a sign-in."""
    for endpoint in dashboard.endpoints():
        if ROUTES[endpoint.method, endpoint.path][0] is not OPEN:
            yield endpoint


def test_every_route_is_in_the_table(dashboard: Dashboard) -> None:
    assert {(endpoint.method, endpoint.path) for endpoint in dashboard.endpoints()} == set(ROUTES)


def test_a_route_is_open_to_its_roles_and_to_no_other(dashboard: Dashboard) -> None:
    wrong = []
    for endpoint in protected_routes(dashboard):
        roles = ROUTES[endpoint.method, endpoint.path][0] or frozenset()
        for role in Role:
            status = ask_route(dashboard, endpoint, cookie=dashboard.cookies[role]).status
            is_refused = status in {401, 403} and endpoint.path != "/admin/account/password"
            if is_refused == (role in roles):
                wrong.append((endpoint.method, endpoint.path, role.value, status))

    assert wrong == []


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer {key}"}, {"cookie": "{key}"}])
def test_admin_pages_need_a_session_and_refuse_a_callers_key(
    dashboard: Dashboard, headers: dict[str, str]
) -> None:
    _, key = dashboard.store.teams.create_key(dashboard.own, "", now=NOW)
    before, cookie = len(dashboard.store.audit.entries(200)), f"thriftgate_admin={key}"
    filled = {
        name: cookie if name == "cookie" else text.format(key=key) for name, text in headers.items()
    }
    wrong = []
    for endpoint in protected_routes(dashboard):
        answer = ask_route(dashboard, endpoint, **filled)
        is_sent_to_form = answer.status == 303 and "/admin/sign-in" in answer.headers["location"]
        if not (is_sent_to_form if endpoint.is_page else answer.status == 401):
            wrong.append((endpoint, answer.status))

    assert wrong == []
    assert len(dashboard.store.audit.entries(200)) == before


@pytest.mark.parametrize(
    "source",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "origin": "http://gateway:8080"},
        {"sec_fetch_site": None, "origin": "https://evil.example"},
        {"sec_fetch_site": None, "origin": "null"},
    ],
)
def test_no_other_site_changes_anything(dashboard: Dashboard, source: dict[str, Any]) -> None:
    before = len(dashboard.store.audit.entries(200))
    cookie = dashboard.cookies[Role.ADMIN]
    accepted = [
        endpoint
        for endpoint in dashboard.endpoints()
        if not endpoint.is_safe
        and ask_route(dashboard, endpoint, cookie=cookie, **source).status != 403
    ]

    assert accepted == []
    assert len(dashboard.store.audit.entries(200)) == before
    assert dashboard.ask("GET", f"{_API}/session", cookie=cookie).status == 200


def test_a_safe_method_changes_nothing(dashboard: Dashboard) -> None:
    before = len(dashboard.store.audit.entries(200))
    for endpoint in dashboard.endpoints():
        if endpoint.is_safe:
            ask_route(dashboard, endpoint, cookie=dashboard.cookies[Role.ADMIN])

    assert len(dashboard.store.audit.entries(200)) == before


def test_names_that_people_and_callers_choose_are_text_on_every_page(
    dashboard: Dashboard, board: FakeBoard
) -> None:
    store = dashboard.store
    team = store.teams.create(EVIL, now=NOW, who=EVIL)
    limits = KeyLimits(models=frozenset({EVIL}))
    store.teams.create_key(team.id, EVIL, now=NOW, feature=EVIL, limits=limits, who=EVIL)
    dashboard.cookies[Role.ADMIN] = dashboard.cookie(
        dashboard.add_person(EVIL[:100].strip(), Role.ADMIN)
    )
    store.layouts.propose(LayoutScope(team.id, EVIL, EVIL), "digest", "{}", NOW)
    receipt = a_receipt(1, team=team.id, feature=EVIL, model=EVIL, route=EVIL, started=NOW - 60)
    assert inserter(store._engine)([receipt]) is None
    evil = {"name": EVIL, "team": EVIL, "feature": EVIL, "what": EVIL, "why": EVIL}
    board.page = overview(
        objectives=[an_objective(**evil, state="pinned", pin=a_pin(who=EVIL, why=EVIL))],
        reroutes=[a_reroute(objective=EVIL, why=EVIL, level=EVIL)],
        rerouted_calls=[a_rerouted_call(team=EVIL, feature=EVIL, model=EVIL, error=EVIL)],
        counters=[a_counter(budget=EVIL, whose=EVIL)],
        open_alerts=[an_open_alert(title=EVIL, done=EVIL, fix=EVIL, facts=((EVIL, EVIL),))],
    )
    pages = read_pages(dashboard, team=team.id, call_id=receipt.call_id)
    for path, html in pages.items():
        assert_no_markup(path, html)

    assert sum("&lt;script&gt;" in html for html in pages.values()) >= 6


def read_pages(dashboard: Dashboard, **values: str) -> dict[str, str]:
    """Every page as an admin reads it, by its path with these values."""
    cookie = dashboard.cookies[Role.ADMIN]
    paths = [
        fill_path(endpoint.path, **values)
        for endpoint in dashboard.endpoints()
        if endpoint.is_page and endpoint.is_safe and "static" not in endpoint.path
    ]
    return {path: dashboard.ask("GET", path, cookie=cookie).body.decode() for path in paths}


def assert_no_markup(path: str, html: str) -> None:
    """No text on a page became an element or a script."""
    assert "<script>alert" not in html, path
    assert "<img" not in html, path
    assert "onerror=alert(1)>" not in html.replace("&gt;", ""), path
    scripts = re.findall(r"<script\b[^>]*>(.*?)</script>", html, re.DOTALL)
    assert not any(text.strip() for text in scripts), path


def test_prompts_tool_names_and_texts_of_providers_are_text_on_every_page(
    dashboard: Dashboard,
) -> None:
    """Each text has a name of its own, to see that it reaches a page at all."""

    def prompt(tool: str) -> str:
        tools = [{"function": {"name": "x", f"key {EVIL}": f"{tool} {EVIL}"}}]
        return json.dumps({"tools": tools})

    plain: dict[str, Any] = {
        "team": dashboard.own, "feature": "chat", "model": "m", "conversation": "c" * 32,
    }  # fmt: skip
    hit = a_receipt(1, **plain, started=NOW - 50, prompt=prompt("hit"))
    missed = a_receipt(
        2, **plain, started=NOW - 40, prompt=prompt("miss"), miss="diverged",
        miss_detail=f"detail {EVIL}", expected_read=1_000, notes=(f"note {EVIL}",),
        error=f"error {EVIL}", upstream_id=f"id {EVIL}",
        tags=(("customer", f"tag {EVIL}"),),
    )  # fmt: skip
    assert inserter(dashboard.store._engine)([hit, missed]) is None
    move = LayoutMove(
        before=None, after=None, slot=PromptSlot.VARIABLE, label=f"label {EVIL}",
        shows=f"tool {EVIL}", saving=10**9,
    )  # fmt: skip
    moves = msgspec.json.encode(Layout(moves=(move,))).decode()
    dashboard.store.layouts.propose(LayoutScope(dashboard.own, "chat"), "digest", moves, NOW)
    pages = read_pages(dashboard, team=dashboard.own, feature="chat", call_id=missed.call_id)
    cookie = dashboard.cookies[Role.ADMIN]
    for path in ("/admin/reports?by=tag:customer", "/admin/now?by=tag:customer"):
        pages[path] = dashboard.ask("GET", path, cookie=cookie).body.decode()
        assert f"tag {EVIL}" in unescape(pages[path])
    for path, html in pages.items():
        assert_no_markup(path, html)

    every = unescape("".join(pages.values()))
    names = ("detail", "note", "error", "id", "tag", "label", "tool", "key", "hit", "miss")
    assert [name for name in names if f"{name} {EVIL}" not in every] == []


@pytest.mark.parametrize(
    "target", ["https://evil.example", "//evil.example/admin/", "/\\evil.example", "/admin/../../x"]
)
def test_no_page_redirects_to_another_host(dashboard: Dashboard, target: str) -> None:
    for endpoint in dashboard.endpoints():
        if endpoint.is_page:
            path = fill_path(endpoint.path, team=dashboard.own, call_id=CALL)
            cookie = dashboard.cookies[Role.ADMIN]
            sent = {"next": target, "back": target}
            answer = (
                dashboard.ask("GET", f"{path}?next={target}", cookie=cookie)
                if endpoint.is_safe
                else dashboard.ask(
                    endpoint.method, path, cookie=cookie, document=sent, referer=target
                )
            )
            location = answer.headers.get("location", "/admin")
            assert location == "/admin" or location.startswith(("/admin/", "/admin?", "/me")), path
            assert f'href="{target}' not in answer.body.decode(errors="replace")
