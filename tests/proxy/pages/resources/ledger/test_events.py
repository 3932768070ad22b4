"""Events of a period, as people of each role see them over plots."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboards.access import Role
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.sql.access.audit_log import AuditedChange
from proxy.store.sql.settings.stored_policies import DISABLED_ROUTES
from proxy.store.store import Store
from slo.alert import Severity
from tests.fakes.alerts import an_alert
from tests.fakes.board import NOW, FakeBoard, a_reroute, overview
from tests.fakes.dashboard import Dashboard


@pytest.fixture
def dashboard(store: Store, tmp_path: Path) -> Iterator[Dashboard]:
    made = Dashboard(store, tmp_path, FakeBoard(overview(reroutes=[a_reroute()])))
    yield made
    made.close()


def events(dashboard: Dashboard, role: Role = Role.ADMIN, query: str = "") -> list[dict[str, Any]]:
    answer = dashboard.ask_as(role, "GET", f"/api/v1/events{query}")
    assert answer.status == 200, answer.body
    listed: list[dict[str, Any]] = json.loads(answer.body)
    return listed


def change_modes(dashboard: Dashboard) -> None:
    layouts = dashboard.store.layouts
    for team in (dashboard.own, dashboard.other):
        layouts.switch(LayoutScope(team, "chat"), PlanningMode.APPLY, "ann", NOW - 60)


def test_fallbacks_alerts_and_changes_stand_in_one_list_the_newest_first(
    dashboard: Dashboard,
) -> None:
    change_modes(dashboard)
    alerts = [an_alert(began=NOW - 30), an_alert(kind="move", began=NOW - 20)]
    dashboard.store.outbox.add(alerts, {}, NOW)
    listed = events(dashboard)

    assert [event["kind"] for event in listed] == ["alert", "mode", "mode", "fallback"]
    assert listed[0]["is_bad"]
    assert listed[1]["why"] == "mode: none → apply"
    assert listed[3]["title"] == "chat-ttft: as asked → small"
    assert "ann" not in json.dumps(listed)


def test_change_of_an_objectives_state_alone_names_the_state(store: Store, tmp_path: Path) -> None:
    pinned = a_reroute(source="", level="", state="pinned")
    with closing(Dashboard(store, tmp_path, FakeBoard(overview(reroutes=[pinned])))) as shown:
        assert [event["title"] for event in events(shown)] == ["chat-ttft: pinned"]


def test_a_layout_that_approves_itself_is_an_event(dashboard: Dashboard) -> None:
    place, layouts = LayoutScope(dashboard.own, "chat", "claude"), dashboard.store.layouts
    layouts.switch(place, PlanningMode.AUTO, "ann", NOW - 60)
    layouts.propose(place, "d1", "[]", NOW - 30)
    listed = events(dashboard)[0]

    assert (listed["kind"], listed["at"]) == ("layout", NOW - 30)
    assert listed["title"] == "approve layout: acme, chat on claude"
    assert listed["why"] == "layout: 0 → 1"


def test_a_member_sees_changes_of_own_teams_and_no_alerts(dashboard: Dashboard) -> None:
    change_modes(dashboard)
    dashboard.store.outbox.add([an_alert(severity=Severity.NOTE, began=NOW - 30)], {}, NOW)

    titles = {event["title"] for event in events(dashboard, Role.VIEWER)}
    assert titles == {"set layout mode: acme, chat", "chat-ttft: as asked → small"}
    assert len(events(dashboard, Role.FINANCE)) == 4


def test_changes_of_policies_are_events_of_who_sees_all_teams(dashboard: Dashboard) -> None:
    append = dashboard.store.audit.append
    append(AuditedChange(who="a", action="change ceiling", subject="cap of b"), NOW - 5)
    append(
        AuditedChange(who="a", action="disable drafts", subject="x", team=dashboard.own), NOW - 4
    )
    append(
        AuditedChange(who="a", action="create budget", subject="own", team=dashboard.own), NOW - 3
    )

    admin, member = (
        [event["kind"] for event in events(dashboard, role) if event["kind"] != "fallback"]
        for role in (Role.ADMIN, Role.VIEWER)
    )
    assert admin == ["policy", "fast path", "policy"]
    assert member == ["policy", "fast path"]


def test_only_events_of_the_period_and_of_what_moves_lines_are_listed(dashboard: Dashboard) -> None:
    change_modes(dashboard)
    dashboard.store.audit.append(AuditedChange(who="a", action="create key", subject="k"), NOW - 5)
    day = (datetime.fromtimestamp(NOW, UTC) - timedelta(days=1)).date()

    assert events(dashboard, query=f"?from={day}&to={day}") == []
    assert "create key" not in json.dumps(events(dashboard))


def test_a_marked_deploy_is_an_event_of_everybody_and_names_who_marked_it_in_the_audit_log(
    dashboard: Dashboard,
) -> None:
    mark = {"name": " shop 4.2 ", "at": NOW - 90}
    answer = dashboard.ask_as(Role.ADMIN, "POST", "/api/v1/deploys", document=mark)

    assert answer.status == 204
    event = events(dashboard, Role.VIEWER)[0]
    assert (event["kind"], event["title"], event["at"]) == ("deploy", "deploy: shop 4.2", NOW - 90)
    entries = dashboard.store.audit.entries(200, who="admin")
    assert [(entry.subject, entry.at, entry.after) for entry in entries] == [
        ("shop 4.2", NOW, {"at": NOW - 90})
    ]


def test_a_deploy_stands_in_the_period_of_its_time_alone(dashboard: Dashboard) -> None:
    dashboard.store.audit.mark_deploy("shop 4.2", "ann", NOW, NOW - 2 * 86_400)
    day = (datetime.fromtimestamp(NOW, UTC) - timedelta(days=2)).date()

    today = events(dashboard, query=f"?from={datetime.fromtimestamp(NOW, UTC):%Y-%m-%d}")
    assert "deploy" not in [event["kind"] for event in today]
    (event,) = events(dashboard, query=f"?from={day}&to={day}")
    assert event["at"] == NOW - 2 * 86_400


def test_values_of_changes_of_no_team_are_shown_to_who_sees_all_teams_alone(
    dashboard: Dashboard,
) -> None:
    for at, why in ((NOW - 6, "first"), (NOW - 5, "acme's secret")):
        fields = {"name": "route lab/a", "until": None, "why": why}
        dashboard.store.policies.set(DISABLED_ROUTES, fields, "ann", at)

    assert "secret" in events(dashboard)[0]["why"]
    seen = events(dashboard, Role.VIEWER)
    assert seen[0]["title"] == "disable: route lab/a"
    assert "secret" not in json.dumps(seen)


@pytest.mark.parametrize(
    "mark",
    [
        {"name": "  "},
        {"name": "a\x00b"},
        {"name": "a\u202eb"},
        {"name": "x", "at": NOW + 3_600},
        {"name": "x", "at": NOW - 31 * 86_400},
    ],
)
def test_a_deploy_without_a_printable_name_or_of_another_time_is_refused(
    dashboard: Dashboard, mark: dict[str, Any]
) -> None:
    answer = dashboard.ask_as(Role.ADMIN, "POST", "/api/v1/deploys", document=mark)
    assert answer.status in {400, 422}


@pytest.mark.parametrize("path", ["", "/costs", "/cache", "/latency", "/now"])
def test_each_page_with_a_plot_over_time_lists_its_events(dashboard: Dashboard, path: str) -> None:
    change_modes(dashboard)
    page = dashboard.ask_as(Role.ADMIN, "GET", f"/admin{path}").body.decode()

    if "data-chart" in page:
        assert "set layout mode: acme, chat" in page
        assert "data-at=" in page
