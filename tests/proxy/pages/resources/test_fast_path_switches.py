"""Parts of the fast path switched off and on by the API and the page, by people of each role."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboards.access import Role
from proxy.records.receipt import ServedBy
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.policies.answer_cache import answer_cache_of
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import CALL, NOW
from tests.fakes.dashboard import OWN_TEAM, Dashboard
from tests.fakes.receipts import a_receipt

RULES = """
[[answer_cache]]
name = "faq-answers"
feature = "faq"
"""


@pytest.fixture
def dashboard(store: Store, tmp_path: Path) -> Iterator[Dashboard]:
    made = Dashboard(store, tmp_path, more_policies=RULES)
    started = NOW - 60
    receipt = a_receipt(
        0, call_id=CALL, team=made.own, started=started, feature="faq", served_by=ServedBy.CACHE
    )
    assert inserter(store._engine)([receipt]) is None
    yield made
    made.close()


def put(
    dashboard: Dashboard,
    *,
    is_on: bool,
    team: str = "",
    feature: str = "faq",
    part: str = "answer_cache",
    role: Role = Role.TEAM_ADMIN,
) -> AsgiConnection:
    path = f"/api/v1/fast-path/{team or dashboard.own}/{feature}/{part}"
    cookie = dashboard.cookies[role]
    return dashboard.ask("PUT", path, document={"is_on": is_on}, cookie=cookie)


def is_cached(dashboard: Dashboard, team: str = OWN_TEAM) -> bool:
    policies = dashboard.reloader.snapshot.policies
    return answer_cache_of(policies.answer_cache, team, "faq") is not None


def test_a_switch_holds_at_once_for_its_team_and_is_undone_by_another(dashboard: Dashboard):
    assert put(dashboard, is_on=False).status == 204
    assert (is_cached(dashboard), is_cached(dashboard, "other")) == (False, True)

    assert put(dashboard, is_on=True).status == 204
    assert is_cached(dashboard)


def test_both_changes_are_audited_once(dashboard: Dashboard):
    for is_on in (False, False, True, True):
        put(dashboard, is_on=is_on)

    entries = [
        entry
        for entry in dashboard.store.audit.entries(99)
        if entry.action.endswith("answer_cache")
    ]
    assert {(entry.who, entry.action, entry.subject) for entry in entries} == {
        ("team-admin", "enable answer_cache", "faq"),
        ("team-admin", "disable answer_cache", "faq"),
    }
    assert len(entries) == 2
    assert {entry.team for entry in entries} == {dashboard.own}


def test_a_switch_holds_also_while_the_policies_file_is_broken(dashboard: Dashboard):
    (dashboard.folder / "policies.toml").write_text("[[answer_cache]", encoding="utf8")

    assert put(dashboard, is_on=False).status == 204
    assert not is_cached(dashboard)


@pytest.mark.parametrize(
    ("place", "status"),
    [
        ({"team": "nobody", "role": Role.ADMIN}, 404),
        ({"feature": "*"}, 400),
        ({"feature": "f" * 129}, 400),
        ({"part": "contexts"}, 422),
        ({"role": Role.VIEWER}, 403),
        ({"role": Role.FINANCE}, 403),
    ],
)
def test_a_switch_that_is_not_there_or_not_allowed_is_refused(
    dashboard: Dashboard, place: dict[str, str], status: int
):
    assert put(dashboard, is_on=False, **place).status == status  # type: ignore[arg-type]
    assert is_cached(dashboard)


def test_another_teams_admin_switches_nothing(dashboard: Dashboard):
    assert put(dashboard, is_on=False, team=dashboard.other).status == 403


def page(dashboard: Dashboard, role: Role) -> str:
    answer = dashboard.ask("GET", "/admin/fast-path", cookie=dashboard.cookies[role])
    return answer.body.decode()


def test_the_page_has_a_switch_of_each_part_for_those_who_may_set_it(dashboard: Dashboard):
    assert "Disable answers given before for faq of acme" in page(dashboard, Role.TEAM_ADMIN)
    assert "faq-answers" in page(dashboard, Role.VIEWER)
    assert "<button" not in page(dashboard, Role.VIEWER).partition("By feature")[2]


def test_the_pages_button_switches_and_keeps_the_filters(dashboard: Dashboard):
    fields = {"team": dashboard.own, "feature": "faq", "part": "answer_cache", "is_on": "false"}
    cookie = dashboard.cookies[Role.TEAM_ADMIN]

    answer = dashboard.ask("POST", "/admin/fast-path?feature=faq", document=fields, cookie=cookie)

    location = f"/admin/fast-path?feature=faq&switched=answer_cache%3A{dashboard.own}%3Afaq"
    assert answer.status == 303
    assert answer.headers["location"].startswith(f"{location}&change=chg_")
    assert "Enable answers given before for faq of acme" in page(dashboard, Role.TEAM_ADMIN)


def test_the_page_after_a_switch_says_what_was_done_and_offers_undo(dashboard: Dashboard):
    put(dashboard, is_on=False)
    path = f"/admin/fast-path?switched=answer_cache:{dashboard.own}:faq&change=chg_1"
    for role, is_admin in ((Role.TEAM_ADMIN, False), (Role.ADMIN, True)):
        html = dashboard.ask_as(role, "GET", path).body.decode()
        banner = html.partition('<div class="banner note" role="status">')[2].partition("</div>")[0]

        assert "for faq of acme: disabled; what was learned and kept stays." in banner
        assert "Undo: enable" in banner
        assert 'name="is_on" value="true"' in banner
        assert 'name="seen" value="chg_1"' in banner
        assert ("audit log" in banner) == is_admin
    viewed = dashboard.ask_as(Role.VIEWER, "GET", path).body.decode()
    assert "Undo" not in viewed


def test_undo_of_a_switch_takes_back_no_newer_change(dashboard: Dashboard):
    put(dashboard, is_on=False)
    fields = {"team": dashboard.own, "feature": "faq", "part": "answer_cache", "is_on": "true"}

    answer = dashboard.ask_as(
        Role.TEAM_ADMIN, "POST", "/admin/fast-path", {**fields, "seen": "chg_1"}
    )

    assert answer.status == 409
    assert "changed after the page was shown, by team-admin" in answer.body.decode()
    assert not is_cached(dashboard)


def test_a_feature_that_no_call_can_have_is_refused_from_the_page_too(dashboard: Dashboard):
    fields = {"team": dashboard.own, "feature": "a\0b", "part": "drafts", "is_on": "false"}
    cookie = dashboard.cookies[Role.TEAM_ADMIN]

    answer = dashboard.ask("POST", "/admin/fast-path", document=fields, cookie=cookie)

    assert answer.status == 400
    assert dashboard.store.fast_path_switches.all() == []


def test_the_api_tells_which_parts_are_off(dashboard: Dashboard):
    put(dashboard, is_on=False)

    answer = dashboard.ask("GET", "/api/v1/fast-path", cookie=dashboard.cookies[Role.VIEWER])

    (row,) = json.loads(answer.body)["features"]
    assert [(rule["part"], rule["is_on"]) for rule in row["rules"]] == [("answer_cache", False)]
