"""Policies set on pages take effect at once, after those of the file, or say why they cannot."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import text

from dashboards.access import Role
from proxy.store.store import Store
from tests.fakes.dashboard import Dashboard

CEILING = {"table": "ceilings", "name": "cent", "limit": "0.01"}
FILE = """
[[ceilings]]
name = "in-the-file"
limit = "1"
"""


@pytest.fixture
def dashboard(store: Store, tmp_path: Path) -> Iterator[Dashboard]:
    made = Dashboard(store, tmp_path, more_policies=FILE)
    yield made
    made.close()


def refusal(dashboard: Dashboard, **fields: str) -> str:
    form = {**CEILING, **fields}
    answer = dashboard.ask_as(Role.ADMIN, "POST", "/admin/policies/set", form)
    assert answer.status in {400, 404, 409}
    assert dashboard.store.policies.all() == []
    return answer.body.decode()


def test_the_api_lists_what_people_set_and_whether_it_holds(dashboard: Dashboard) -> None:
    dashboard.store.policies.set("ceilings", {"name": "in-the-file", "limit": "2"}, "ann", 1.0)
    dashboard.ask_as(Role.ADMIN, "POST", "/admin/policies/set", CEILING)
    answer = dashboard.ask_as(Role.ADMIN, "GET", "/api/v1/policies/stored")

    listed = msgspec.json.decode(answer.body)["policies"]
    assert [(one["name"], one["in_force"], one["problem"]) for one in listed] == [
        ("cent", True, ""),
        ("in-the-file", False, "the policies file has one of this name"),
    ]
    assert listed[0]["toml"] == '[[ceilings]]\nname = "cent"\nlimit = "0.01"\n'


def test_a_policy_of_the_file_is_changed_there(dashboard: Dashboard) -> None:
    assert "The policies file has in-the-file" in refusal(dashboard, name="in-the-file")


def test_a_policy_of_a_team_or_model_that_is_not_there_is_refused(dashboard: Dashboard) -> None:
    assert "There is no team nobody" in refusal(dashboard, team="nobody")
    assert "which the catalog has not" in refusal(dashboard, cheaper="no-such-model")


def test_without_a_policies_file_the_page_has_no_forms_for_policies(dashboard: Dashboard) -> None:
    page = dashboard.ask_as(Role.VIEWER, "GET", "/admin/objectives").body.decode()
    assert "set-policies" not in page
    page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/objectives").body.decode()
    assert "Set a ceiling on what a call may cost" in page


def test_policy_and_switch_that_are_kept_and_cannot_be_adopted_are_said_to_be_kept(
    dashboard: Dashboard,
) -> None:
    dashboard.refuse_snapshots()
    switch = {"team": dashboard.own, "feature": "faq", "part": "drafts", "is_on": "false"}
    forms = {"policies/set": CEILING, "policies/undo": CEILING, "fast-path": switch}
    for path, fields in forms.items():
        html = dashboard.ask_as(Role.ADMIN, "POST", f"/admin/{path}", fields).body.decode()
        assert "<h1>Kept, but not yet in force</h1>" in html
        assert "no room for it" in html


def test_change_that_the_database_does_not_answer_is_said_to_be_kept_perhaps(
    dashboard: Dashboard,
) -> None:
    with dashboard.store._engine.begin() as connection:
        connection.execute(text("DROP TABLE stored_policies"))
    answer = dashboard.ask_as(Role.ADMIN, "POST", "/admin/policies/set", CEILING)

    assert answer.status == 503
    assert "It may be kept: look before you send it again." in answer.body.decode()
