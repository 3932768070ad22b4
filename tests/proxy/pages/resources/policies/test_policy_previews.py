"""Sinks and scheduled reports by form: preview, set, take back, by role."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboards.access import Role
from proxy.pages.resources.policies.policy_previews import report_schedule, sink_problems
from proxy.settings import Settings
from proxy.store.store import Store
from slo.policies.reports import ReportInterval, ScheduledReport
from slo.policies.sinks import Sink, SinkKind
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard

SINK = {"table": "sinks", "name": "on-call", "kind": "slack", "url_env": "ALERTS_URL"}
REPORT = {
    "table": "reports",
    "name": "weekly",
    "by": "team, feature",
    "every": "week",
    "mail_to": "ann@example.com, ben@example.com",
}
#: 2026-09-21, a Monday, 14:13:20 UTC.
MONDAY = 1_790_000_000.0


@pytest.fixture
def dashboard(store: Store, tmp_path: Path) -> Iterator[Dashboard]:
    made = Dashboard(store, tmp_path)
    yield made
    made.close()


def submit(
    dashboard: Dashboard, path: str, fields: dict[str, str], role: Role = Role.ADMIN
) -> AsgiConnection:
    return dashboard.ask_as(role, "POST", f"/admin/policies/{path}", fields)


def text_of(answer: AsgiConnection) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", answer.body.decode()))


def test_a_week_that_has_just_ended_is_sent_two_hours_later() -> None:
    report = ScheduledReport(name="r", every=ReportInterval.WEEK, mail_to=("ann@example.com",))
    schedule, problems = report_schedule(report, Settings(), MONDAY, {})

    assert [send.period for send in schedule.sends] == ["2026-W39", "2026-W40", "2026-W41"]
    assert [send.due for send in schedule.sends] == [
        MONDAY - 51_200 + (7 * (n + 1) * 24 + 2) * 3_600 for n in range(3)
    ]
    assert (schedule.last_period, len(problems)) == ("2026-W38", 1)
    assert schedule.last_query == "by=team&from=2026-09-14&to=2026-09-20&tz=UTC"


def test_the_first_report_of_one_team_is_that_of_its_id() -> None:
    report = ScheduledReport(name="r", every=ReportInterval.MONTH, team="acme")
    schedule, _ = report_schedule(report, Settings(), MONDAY, {"acme": "team_1"})

    assert schedule.last_query == "by=team&from=2026-08-01&to=2026-08-31&tz=UTC&team=team_1"


def test_a_sink_without_its_variable_gets_nothing_and_says_so() -> None:
    sink = Sink(name="on-call", kind=SinkKind.SLACK, url_env="NO_SUCH_VARIABLE")

    assert sink_problems(sink) == [
        "The sink `on-call` gets no alerts: NO_SUCH_VARIABLE is not set."
    ]


def test_the_preview_of_a_sink_says_which_variable_is_missing_and_sets_nothing(
    dashboard: Dashboard,
) -> None:
    answer = submit(dashboard, "preview", SINK)

    assert "The sink `on-call` gets no alerts: ALERTS_URL is not set." in text_of(answer)
    assert "+ url_env = &#34;ALERTS_URL&#34;" in text_of(answer)
    assert dashboard.reloader.snapshot.policies.sinks == ()


def test_a_sink_that_is_set_holds_at_once_and_is_tested_by_its_button(dashboard: Dashboard) -> None:
    assert submit(dashboard, "set", SINK).headers["location"] == "/admin/budgets#set-policies"
    (sink,) = dashboard.reloader.snapshot.policies.sinks
    page = text_of(dashboard.ask_as(Role.ADMIN, "GET", "/admin/budgets"))

    assert (sink.name, sink.url_env) == ("on-call", "ALERTS_URL")
    assert "ALERTS_URL is not set" in page
    tested = dashboard.ask_as(Role.ADMIN, "POST", "/admin/budgets/test-sink", {"name": "on-call"})
    assert "ALERTS_URL is not set" in text_of(tested)


@pytest.mark.parametrize("field", ["url_env", "secret_env"])
@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("OPENAI_API_KEY", "names OPENAI_API_KEY, the key of a provider"),
        ("AWS_SECRET_ACCESS_KEY", "names AWS_SECRET_ACCESS_KEY, which pages may not name; take"),
    ],
)
@pytest.mark.parametrize("path", ["preview", "set"])
def test_no_sink_is_sent_a_variable_that_is_not_for_it(
    dashboard: Dashboard, path: str, field: str, variable: str, words: str
) -> None:
    form = {**SINK, "kind": "alertmanager", field: variable}
    answer = submit(dashboard, path, form)

    assert (answer.status, f"{field} {words}" in text_of(answer)) == (400, True)
    assert "is not set" not in text_of(answer)
    assert dashboard.store.policies.all() == []


def test_a_secret_in_place_of_its_variable_is_refused_and_not_shown(dashboard: Dashboard) -> None:
    answer = submit(dashboard, "set", {**SINK, "url_env": "https://hooks.example/secret"})

    assert "url_env names no environment variable" in text_of(answer)
    assert "hooks.example" not in text_of(answer)


def test_finance_schedules_a_report_after_its_next_times_and_last_figures(
    dashboard: Dashboard,
) -> None:
    html = submit(dashboard, "preview", REPORT, Role.FINANCE).body.decode()
    assert html.count(" UTC</li>") == 3
    assert "/admin/reports?by=team%2Cfeature&amp;from=" in html
    assert "+ mail_to = [&#34;ann@example.com&#34;, &#34;ben@example.com&#34;]" in html

    assert submit(dashboard, "set", REPORT, Role.FINANCE).status == 303
    (report,) = dashboard.reloader.snapshot.policies.reports
    assert report.mail_to == ("ann@example.com", "ben@example.com")
    page = text_of(dashboard.ask_as(Role.FINANCE, "GET", "/admin/reports"))
    assert "weekly" in page
    assert "Reports set here" in page


def test_a_changed_recipient_is_taken_back_and_the_audit_log_has_both(dashboard: Dashboard) -> None:
    for ago, address in ((20, "ann@example.com"), (10, "eve@example.com")):
        fields = {"name": "weekly", "every": "week", "mail_to": [address]}
        dashboard.store.policies.set("reports", fields, "finance", NOW - ago)
    submit(dashboard, "undo", {"table": "reports", "name": "weekly"}, Role.FINANCE)

    (report,) = dashboard.reloader.snapshot.policies.reports
    assert report.mail_to == ("ann@example.com",)
    changes = [one for one in dashboard.store.audit.entries(50) if one.subject == "weekly"]
    actions = [change.action for change in changes]
    assert actions == ["change report", "change report", "create report"]
    assert (changes[0].who, (changes[0].before or {})["mail_to"]) == (
        "finance",
        ["eve@example.com"],
    )


@pytest.mark.parametrize("role", [Role.VIEWER, Role.TEAM_ADMIN, Role.FINANCE])
def test_others_than_administrators_set_no_sink(dashboard: Dashboard, role: Role) -> None:
    for path in ("preview", "set", "remove", "undo"):
        assert submit(dashboard, path, SINK, role).status == 403

    page = dashboard.ask_as(role, "GET", "/admin/budgets").body.decode()
    assert "set-sinks" not in page
    assert dashboard.store.policies.all() == []


@pytest.mark.parametrize("role", [Role.VIEWER, Role.TEAM_ADMIN])
def test_members_of_a_team_schedule_no_report(dashboard: Dashboard, role: Role) -> None:
    for path in ("preview", "set", "remove", "undo"):
        assert submit(dashboard, path, REPORT, role).status == 403

    assert "set-reports" not in dashboard.ask_as(role, "GET", "/admin/reports").body.decode()


def test_finance_lists_reports_and_no_other_policies(dashboard: Dashboard) -> None:
    submit(dashboard, "set", SINK)
    submit(dashboard, "set", REPORT)
    listed = dashboard.ask_as(Role.FINANCE, "GET", "/api/v1/policies/stored").body.decode()

    assert '"name":"weekly"' in listed
    assert "on-call" not in listed
