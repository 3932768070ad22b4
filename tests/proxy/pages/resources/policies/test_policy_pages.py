"""Ceilings and objectives by form: preview, set, change, take back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboards.access import Role
from proxy.store.store import Store
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard
from tests.fakes.ledger_day import book_calls_of_yesterday

CENT = 10_000_000
CEILING = {
    "table": "ceilings", "name": "cent", "limit": "0.01", "feature": "chat", "on_exceed": "refuse",
}  # fmt: skip
OBJECTIVE = {
    "table": "objectives", "name": "fast", "metric": "ttft", "p": "95", "under": "500ms",
    "calls": "all",
}  # fmt: skip


@pytest.fixture
def dashboard(store: Store, tmp_path: Path) -> Iterator[Dashboard]:
    made = Dashboard(store, tmp_path)
    book_calls_of_yesterday(
        store._engine, NOW, 4, cost_nanos=3 * CENT, feature="chat", team=made.own, ttft=0.8
    )
    yield made
    made.close()


def submit(dashboard: Dashboard, path: str, fields: dict[str, str]) -> AsgiConnection:
    return dashboard.ask_as(Role.ADMIN, "POST", f"/admin/policies/{path}", fields)


def limits_in_force(dashboard: Dashboard) -> dict[str, int]:
    return {one.name: one.limit for one in dashboard.reloader.snapshot.policies.ceilings}


def store_ceiling(dashboard: Dashboard, dollars: str, ago: float) -> None:
    fields = {"name": "cent", "limit": dollars}
    dashboard.store.policies.set("ceilings", fields, "ann", NOW - ago)


def test_a_ceiling_is_tried_on_yesterdays_calls_and_not_set_by_the_preview(
    dashboard: Dashboard,
) -> None:
    html = submit(dashboard, "preview", CEILING).body.decode()

    assert "<strong>4 calls, $0.120</strong>, cost more than $0.01 each" in html
    assert "4 calls, $0.120: would have been refused" in html
    assert '<span class="added">+ limit = &#34;0.01&#34;</span>' in html
    assert limits_in_force(dashboard) == {}


def test_an_objective_is_tried_on_yesterdays_calls(dashboard: Dashboard) -> None:
    html = submit(dashboard, "preview", OBJECTIVE).body.decode()

    assert "<strong>4 of 4</strong> calls missed it" in html
    assert "burnt 20.0 times as fast as it may" in html


def test_the_confirmed_preview_holds_at_once_and_a_change_shows_its_difference(
    dashboard: Dashboard,
) -> None:
    assert submit(dashboard, "set", CEILING).status == 303
    assert limits_in_force(dashboard) == {"cent": CENT}

    html = submit(dashboard, "preview", {**CEILING, "limit": "0.02"}).body.decode()
    assert '<span class="removed">- limit = &#34;0.01&#34;</span>' in html
    assert '<span class="added">+ limit = &#34;0.02&#34;</span>' in html


def test_an_objective_that_is_set_is_in_force(dashboard: Dashboard) -> None:
    assert submit(dashboard, "set", OBJECTIVE).status == 303

    (objective,) = dashboard.reloader.snapshot.policies.objectives
    assert (objective.name, objective.target, objective.under) == ("fast", 0.95, 0.5)


def test_undo_restores_the_ceiling_before_its_last_change(dashboard: Dashboard) -> None:
    store_ceiling(dashboard, "0.01", ago=20)
    store_ceiling(dashboard, "0.05", ago=10)

    assert submit(dashboard, "undo", {"table": "ceilings", "name": "cent"}).status == 303
    assert limits_in_force(dashboard) == {"cent": CENT}


def test_a_ceiling_that_another_person_changed_meanwhile_is_not_overwritten(
    dashboard: Dashboard,
) -> None:
    place = {"table": "ceilings", "name": "cent"}
    store_ceiling(dashboard, "0.01", ago=20)
    preview = submit(dashboard, "preview", CEILING).body.decode()
    seen = preview.partition('name="seen" value="')[2].partition('"')[0]
    page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/objectives").body.decode()
    assert page.count(f'name="seen" value="{seen}"') == 2
    store_ceiling(dashboard, "0.05", ago=10)

    for path, fields in (("set", CEILING), ("undo", place), ("remove", place)):
        answer = submit(dashboard, path, {**fields, "seen": seen})
        assert answer.status == 409
        assert "changed after the page was shown, by ann" in answer.body.decode()
    assert [one.fields["limit"] for one in dashboard.store.policies.all()] == ["0.05"]


def test_a_removed_ceiling_is_offered_for_a_week_and_restored(dashboard: Dashboard) -> None:
    store_ceiling(dashboard, "0.01", ago=20)
    dashboard.store.policies.remove("ceilings", "cent", "ann", NOW - 10)
    page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/objectives").body.decode()
    assert "Restore cent" in page

    submit(dashboard, "undo", {"table": "ceilings", "name": "cent"})
    assert limits_in_force(dashboard) == {"cent": CENT}


def test_a_ceiling_is_removed_by_its_button(dashboard: Dashboard) -> None:
    submit(dashboard, "set", CEILING)

    assert submit(dashboard, "remove", {"table": "ceilings", "name": "cent"}).status == 303
    assert limits_in_force(dashboard) == {}
    again = submit(dashboard, "remove", {"table": "ceilings", "name": "cent"})
    assert "No policy of this name was set here" in again.body.decode()


def test_a_form_with_faults_is_shown_again_with_all_of_them(dashboard: Dashboard) -> None:
    answer = dashboard.ask(
        "POST",
        "/admin/policies/preview",
        cookie=dashboard.cookies[Role.ADMIN],
        document={"table": "ceilings", "name": "cent", "limit": "much", "on_exceed": "explode"},
        referer="http://gateway:8080/admin/objectives",
    )
    html = answer.body.decode()

    assert answer.status == 400
    faults = html.partition('<div class="problem" role="alert"><ul>')[2].partition("</ul>")[0]
    assert "limit is" in faults
    assert "explode" in faults
    assert 'name="limit" maxlength="2000" placeholder="0.05" required value="much"' in html


@pytest.mark.parametrize("kind", ["ceilings", "objectives", "sinks", "reports", ""])
def test_a_blank_form_says_in_words_which_fields_are_missing(
    dashboard: Dashboard, kind: str
) -> None:
    answer = submit(dashboard, "preview", {"table": kind})

    assert answer.status == 400
    assert ("name is missing" if kind else "Choose one of ceilings") in answer.body.decode()
