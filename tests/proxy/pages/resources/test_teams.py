"""Teams and keys over the API: each person sees and changes those of own teams."""

import json
from typing import Any

import pytest

from dashboards.access import Role
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard

DAY = 86_400.0


def got(dashboard: Dashboard, role: Role, method: str, path: str, sent: Any = None) -> Any:
    answer = dashboard.ask_as(role, method, f"/api/v1{path}", sent)
    return answer.status, json.loads(answer.body) if answer.body else None


def test_a_person_sees_own_teams_and_finance_sees_all(dashboard: Dashboard) -> None:
    def names(role: Role) -> list[str]:
        return [item["name"] for item in got(dashboard, role, "GET", "/teams")[1]]

    assert names(Role.VIEWER) == names(Role.TEAM_ADMIN) == ["acme"]
    assert names(Role.FINANCE) == names(Role.ADMIN) == ["acme", "other"]


def test_a_key_is_made_with_limits_shown_once_and_revoked(dashboard: Dashboard) -> None:
    request = {
        "team": dashboard.own,
        "name": " ci ",
        "expires": NOW + DAY,
        "models": ["small"],
    }
    status, made = got(dashboard, Role.TEAM_ADMIN, "POST", "/keys", request)
    assert (status, made["secret"][:3], made["key"]["name"]) == (201, "tg-", "ci")

    _, page = got(dashboard, Role.TEAM_ADMIN, "GET", "/keys")
    (key,) = page["keys"]
    assert (key["state"], key["expires"], key["models"]) == ("open", NOW + DAY, ["small"])
    assert made["secret"] not in json.dumps(page)
    assert key["ends_in"] == made["secret"][-4:]
    assert got(dashboard, Role.TEAM_ADMIN, "DELETE", f"/keys/{key['id']}")[0] == 204
    assert got(dashboard, Role.TEAM_ADMIN, "DELETE", f"/keys/{key['id']}")[0] == 404
    _, page = got(dashboard, Role.TEAM_ADMIN, "GET", "/keys")
    assert page["keys"][0]["state"] == "revoked"
    changes = list(dashboard.store.audit.entries(10, who="team-admin"))
    assert {change.action for change in changes} == {"create key", "revoke key"}


def test_keys_of_other_teams_are_neither_shown_nor_changed(dashboard: Dashboard) -> None:
    key, _ = dashboard.store.teams.create_key(dashboard.other, "theirs", now=NOW)

    assert got(dashboard, Role.TEAM_ADMIN, "GET", "/keys")[1]["keys"] == []
    assert got(dashboard, Role.TEAM_ADMIN, "GET", f"/keys?team={dashboard.other}")[0] == 403
    assert got(dashboard, Role.TEAM_ADMIN, "POST", "/keys", {"team": dashboard.other})[0] == 403
    assert got(dashboard, Role.TEAM_ADMIN, "DELETE", f"/keys/{key.id}")[0] == 404
    assert dashboard.store.teams.key(key.id) == key
    assert got(dashboard, Role.ADMIN, "DELETE", f"/keys/{key.id}")[0] == 204


def test_pages_of_keys_go_on_where_the_one_before_ended(dashboard: Dashboard) -> None:
    for number in range(5):
        made = NOW + number // 2  # two are made at once
        dashboard.store.teams.create_key(dashboard.own, str(number), now=made)
    seen: list[str] = []
    after: Any = ""
    for _ in range(3):
        _, page = got(dashboard, Role.ADMIN, "GET", f"/keys?limit=2&after={after}")
        seen += [key["name"] for key in page["keys"]]
        after = page["next"]

    assert (sorted(seen), after) == (list("01234"), None)
    assert seen[0] == "4"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        ({"team": "team_none"}, 404, "unknown_team"),
        ({"expires": NOW}, 400, "already_expired"),
        ({"expires": 1e300}, 422, "invalid_parameter"),
        ({"models": []}, 422, "invalid_parameter"),
        ({"models": [" "]}, 422, "invalid_parameter"),
        ({"name": "x" * 129}, 422, "invalid_parameter"),
        ({"name": "a\u202eb"}, 422, "invalid_parameter"),
        ({"name": "a\0b"}, 422, "invalid_parameter"),
    ],
)
def test_a_key_that_cannot_be_made_says_why(
    dashboard: Dashboard, sent: dict[str, Any], status: int, code: str
) -> None:
    request = {"team": dashboard.own, **sent}
    result, body = got(dashboard, Role.ADMIN, "POST", "/keys", request)

    assert (result, body["error"]["code"]) == (status, code)


@pytest.mark.parametrize("after", ["x", "nan_key_1", "-1_key_1", "1", "1e400_key_1"])
def test_a_cursor_that_no_page_gave_is_refused(dashboard: Dashboard, after: str) -> None:
    status, body = got(dashboard, Role.ADMIN, "GET", f"/keys?after={after}")

    assert (status, body["error"]["code"]) == (400, "invalid_cursor")


def test_teams_are_made_once_and_their_prompts_kept_by_administrators(
    dashboard: Dashboard,
) -> None:
    status, team = got(dashboard, Role.ADMIN, "POST", "/teams", {"name": "new"})
    assert (status, team["keeps_prompts"]) == (201, False)
    assert got(dashboard, Role.ADMIN, "POST", "/teams", {"name": "new"})[0] == 409

    keep = {"keeps_prompts": True}
    assert got(dashboard, Role.ADMIN, "PUT", f"/teams/{team['id']}/prompts", keep)[0] == 204
    assert got(dashboard, Role.ADMIN, "PUT", "/teams/team_x/prompts", keep)[0] == 404
    retention = {team.name: team.keeps_prompts for team in dashboard.store.teams.all()}
    assert retention == {"acme": False, "other": False, "new": True}
