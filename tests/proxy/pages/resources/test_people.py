"""People over the API: added by a link, changed at once, each with an account of their own."""

import asyncio
import json
from typing import Any

import pytest

from dashboards.access import Role
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard, new_cookie

PASSWORD = "correct horse battery"


def got(dashboard: Dashboard, method: str, path: str, sent: Any = None, cookie: str = "") -> Any:
    cookie = cookie or dashboard.cookies[Role.ADMIN]
    answer = dashboard.ask(method, f"/api/v1{path}", cookie=cookie, document=sent)
    return answer.status, json.loads(answer.body) if answer.body else None


def test_a_person_is_added_and_signs_in_by_the_link_and_then_by_a_password(
    dashboard: Dashboard,
) -> None:
    request = {"name": "ann", "role": "team-admin", "teams": [dashboard.own]}
    status, link = got(dashboard, "POST", "/people", request)
    assert (status, link["person"]["has_password"]) == (201, False)
    code = link["path"].partition("code=")[2]
    opened = dashboard.ask("POST", "/admin/sign-in", document={"code": code})
    assert opened.headers["location"] == "/admin/account"
    cookie = new_cookie(opened)

    assert got(dashboard, "PUT", "/account/password", {"password": "short"}, cookie)[0] == 400
    assert got(dashboard, "PUT", "/account/password", {"password": PASSWORD}, cookie)[0] == 204
    again = dashboard.ask("POST", "/admin/sign-in", document={"name": "ann", "password": PASSWORD})
    assert again.status == 303
    assert got(dashboard, "GET", "/session", cookie=new_cookie(again))[1] == {
        "name": "ann",
        "role": "team-admin",
        "teams": [dashboard.own],
    }


def test_a_new_password_needs_the_current_one_and_ends_other_sessions(
    dashboard: Dashboard,
) -> None:
    ann = dashboard.add_person("ann", Role.VIEWER, dashboard.own)
    passwords = dashboard.access.methods.passwords
    hashed = asyncio.run(passwords.hash(PASSWORD))
    dashboard.store.users.set_password(ann.id, hashed, now=NOW, who="ann")
    signed_in = [
        new_cookie(
            dashboard.ask("POST", "/admin/sign-in", document={"name": "ann", "password": PASSWORD})
        )
        for _ in range(2)
    ]
    here, there = signed_in
    sent = {"password": "another long password", "current": "wrong"}
    status, body = got(dashboard, "PUT", "/account/password", sent, here)
    assert (status, body["error"]["code"]) == (403, "wrong_password")
    assert got(dashboard, "GET", "/session", cookie=there)[0] == 200

    sent["current"] = PASSWORD
    assert got(dashboard, "PUT", "/account/password", sent, here)[0] == 204
    assert got(dashboard, "GET", "/session", cookie=here)[0] == 200
    assert got(dashboard, "GET", "/session", cookie=there)[0] == 401


def test_a_changed_role_and_a_disabled_person_are_noticed_at_once(dashboard: Dashboard) -> None:
    viewer = dashboard.people[Role.VIEWER]
    cookie = dashboard.cookies[Role.VIEWER]
    path = f"/people/{viewer.id}"
    assert got(dashboard, "GET", "/people", cookie=cookie)[0] == 403
    assert got(dashboard, "PUT", f"{path}/role", {"role": "admin"})[1]["role"] == "admin"
    assert got(dashboard, "GET", "/people", cookie=cookie)[0] == 200

    assert got(dashboard, "PUT", f"{path}/state", {"is_disabled": True})[1]["is_disabled"]
    assert got(dashboard, "GET", "/session", cookie=cookie)[0] == 401
    assert got(dashboard, "POST", f"{path}/link")[0] == 409
    got(dashboard, "PUT", f"{path}/state", {"is_disabled": False})
    assert got(dashboard, "POST", f"{path}/link")[0] == 201


@pytest.mark.parametrize(
    ("path", "method", "sent", "status", "code"),
    [
        ("", "POST", {"name": "viewer", "role": "admin"}, 409, "not_possible"),
        ("", "POST", {"name": "ann", "role": "viewer"}, 400, "teams_missing"),
        ("", "POST", {"name": "ann", "role": "viewer", "teams": ["x"]}, 404, "unknown_team"),
        ("", "POST", {"name": "ann", "role": "root"}, 422, "invalid_parameter"),
        ("/user_x/role", "PUT", {"role": "admin"}, 404, "unknown_person"),
        ("/user_x/state", "PUT", {"is_disabled": True}, 404, "unknown_person"),
        ("/user_x/link", "POST", None, 404, "unknown_person"),
        ("/{admin}/state", "PUT", {"is_disabled": True}, 409, "not_possible"),
    ],
)
def test_a_change_that_cannot_be_made_says_why(
    dashboard: Dashboard, path: str, method: str, sent: Any, status: int, code: str
) -> None:
    path = path.format(admin=dashboard.people[Role.ADMIN].id)
    result, body = got(dashboard, method, f"/people{path}", sent)

    assert (result, body["error"]["code"]) == (status, code)


def test_a_person_sees_and_ends_own_sessions_and_nobody_elses(dashboard: Dashboard) -> None:
    viewer = dashboard.people[Role.VIEWER]
    here, there = dashboard.cookies[Role.VIEWER], dashboard.cookie(viewer)
    _, account = got(dashboard, "GET", "/account", cookie=here)
    assert [session["is_this"] for session in account["sessions"]].count(True) == 1
    (other,) = [session["id"] for session in account["sessions"] if not session["is_this"]]
    assert got(dashboard, "DELETE", f"/account/sessions/{other}")[0] == 404  # an administrator

    assert got(dashboard, "DELETE", f"/account/sessions/{other}", cookie=here)[0] == 204
    assert got(dashboard, "GET", "/session", cookie=there)[0] == 401
    assert got(dashboard, "GET", "/session", cookie=here)[0] == 200
