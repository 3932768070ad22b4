"""Forms of teams, keys, people and accounts do what the API does, and secrets are shown once."""

import re

from dashboards.access import Role
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard, new_cookie

PASSWORD = "correct horse battery"


def text(answer: AsgiConnection) -> str:
    return answer.body.decode()


def submit(
    dashboard: Dashboard, path: str, by: Role = Role.ADMIN, /, **fields: str
) -> AsgiConnection:
    return dashboard.ask_as(by, "POST", f"/admin{path}", fields)


def page(dashboard: Dashboard, path: str, role: Role = Role.ADMIN) -> str:
    answer = dashboard.ask_as(role, "GET", f"/admin{path}")
    assert answer.status == 200, answer.body
    return text(answer)


def test_a_key_is_made_by_a_form_shown_once_and_revoked(dashboard: Dashboard) -> None:
    fields = {"team": dashboard.own, "name": "ci", "lasts": "90d", "models": "small, big"}
    made = submit(dashboard, "/teams/create-key", Role.TEAM_ADMIN, **fields)
    secret = re.search(r'class="secret">(tg-[\w-]{40})<', text(made))
    assert (made.status, secret is not None) == (200, True)
    shown = page(dashboard, "/teams", Role.TEAM_ADMIN)
    assert secret is not None
    assert secret[1] not in shown
    assert "big, small" in shown
    assert "until <time" in shown

    (key,) = dashboard.store.teams.keys(dashboard.own)
    gone = submit(dashboard, "/teams/revoke-key", Role.TEAM_ADMIN, key=key.id)
    assert (gone.status, gone.headers["location"]) == (303, "/admin/teams")
    assert "revoked" in page(dashboard, "/teams", Role.TEAM_ADMIN)


def test_a_mistake_in_a_form_is_told_as_a_page(dashboard: Dashboard) -> None:
    wrong = submit(dashboard, "/teams/create-key", team=dashboard.own, lasts="soon")

    assert wrong.status == 400
    assert "Write how long as a number and a unit, such as 12h or 90d." in text(wrong)
    assert dashboard.store.teams.keys(dashboard.own) == []


def test_people_without_keys_to_change_see_teams_and_no_form(dashboard: Dashboard) -> None:
    shown = page(dashboard, "/teams", Role.VIEWER)

    assert "acme" in shown
    assert "other" not in shown
    assert "create-key" not in shown
    assert "/admin/people" not in shown


def test_a_team_is_made_and_its_prompts_are_stored(dashboard: Dashboard) -> None:
    assert submit(dashboard, "/teams/create", name="new", keep="yes").status == 303
    team = next(team for team in dashboard.store.teams.all() if team.name == "new")
    assert team.keeps_prompts
    submit(dashboard, "/teams/prompts", team=team.id, keep="no")

    assert not any(team.keeps_prompts for team in dashboard.store.teams.all())
    assert "of all teams" in page(dashboard, f"/teams?team={team.id}")
    assert page(dashboard, "/teams?team=team_x")


def test_a_person_is_added_and_changed_by_forms(dashboard: Dashboard) -> None:
    team = {f"team:{dashboard.own}": "on"}
    added = submit(dashboard, "/people/add", name="ann", role="team-admin", **team)
    link = re.search(
        r'class="secret">http://gateway:8080/admin/sign-in\?code=([\w-]+)<', text(added)
    )
    assert link is not None
    assert link[1] not in page(dashboard, "/people")
    ann = dashboard.store.users.find("ann")
    assert ann is not None
    assert ann.teams == {dashboard.own}

    submit(dashboard, "/people/change", person=ann.id, change="role", role="finance")
    submit(dashboard, "/people/change", person=ann.id, change="disable")
    changed = dashboard.store.users.find("ann")
    assert changed is not None
    assert (changed.role, changed.is_disabled) == (Role.FINANCE, True)
    assert submit(dashboard, "/people/change", person=ann.id, change="link").status == 409
    submit(dashboard, "/people/change", person=ann.id, change="enable")
    assert "secret" in text(submit(dashboard, "/people/change", person=ann.id, change="link"))
    assert submit(dashboard, "/people/change", person=ann.id, change="other").status == 400


def test_an_account_without_a_password_asks_for_one_and_sets_it(dashboard: Dashboard) -> None:
    assert "Set a password" in page(dashboard, "/account", Role.VIEWER)
    fields = {"password": PASSWORD, "again": PASSWORD}
    differ = submit(dashboard, "/account/password", Role.VIEWER, **{**fields, "again": "x"})
    assert "The two new passwords differ." in text(differ)

    assert submit(dashboard, "/account/password", Role.VIEWER, **fields).status == 303
    assert "Another password" in page(dashboard, "/account", Role.VIEWER)
    opened = dashboard.ask(
        "POST", "/admin/sign-in", document={"name": "viewer", "password": PASSWORD}
    )
    assert opened.status == 303
    holder = dashboard.store.sessions.of_holder(dashboard.people[Role.VIEWER].id, NOW)
    ids = {session.method: session.id for session in holder}
    assert all(
        session_id in page(dashboard, "/account", Role.VIEWER) for session_id in ids.values()
    )
    submit(dashboard, "/account/end-session", Role.VIEWER, session=ids["password"])
    assert dashboard.ask("GET", "/admin/account", cookie=new_cookie(opened)).status == 303


def test_the_audit_log_shows_who_changed_what_from_and_to_which_value(
    dashboard: Dashboard,
) -> None:
    viewer = dashboard.people[Role.VIEWER]
    submit(dashboard, "/people/change", person=viewer.id, change="role", role="finance")
    shown = " ".join(page(dashboard, "/audit?who=admin").split())

    assert "change role" in shown
    assert "role: <del>viewer</del> → <ins>finance</ins>" in shown
    assert "Older changes" not in shown
    assert "Older changes" in page(dashboard, "/audit?limit=1")


def test_a_key_with_two_faults_names_both_and_keeps_the_form(dashboard: Dashboard) -> None:
    fields = {
        "team": dashboard.own, "name": "CI", "lasts": "soon", "limit": "much", "window": "day",
    }  # fmt: skip
    answer = dashboard.ask(
        "POST", "/admin/teams/create-key", cookie=dashboard.cookies[Role.ADMIN], document=fields,
        referer="http://gateway:8080/admin/teams",
    )  # fmt: skip
    html = answer.body.decode()
    faults = html.partition('<div class="problem" role="alert"><ul>')[2].partition("</ul>")[0]

    assert "12h or 90d" in faults
    assert "limit" in faults
    assert 'placeholder="such as CI, or a person" value="CI"' in html
