"""Scheduled reports that administrators send by hand, on the page and by the API."""

import json

import pytest

from dashboards.access import Role
from tests.fakes.alerts import json_of_post
from tests.fakes.dashboard import OWN_TEAM, Dashboard
from tests.fakes.webhooks import answering_webhook

REPORTS = f"""
[[reports]]
name = "weekly"
every = "week"
url_env = "SENDING_TEST_URL"
secret_env = "SENDING_TEST_SECRET"

[[reports]]
name = "lost"
team = "{OWN_TEAM}-gone"
every = "month"
url_env = "SENDING_TEST_URL"
secret_env = "SENDING_TEST_SECRET"
"""


@pytest.fixture
def policies() -> str:
    return REPORTS


def audit_of_reports(dashboard: Dashboard) -> list[tuple[str, object]]:
    """The person and the results of each sending, the newest first."""
    return [
        (entry.who, entry.after)
        for entry in dashboard.store.audit.entries(20)
        if entry.action == "send report"
    ]


def test_the_last_week_is_sent_and_the_schedule_stays_as_it_is(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering_webhook(200, "SENDING_TEST", monkeypatch) as server:
        page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/reports").body.decode()
        answer = dashboard.ask_as(Role.ADMIN, "POST", "/admin/reports/send", {"name": "weekly"})
    html = answer.body.decode()

    assert "Send weekly now" in page
    assert answer.status == 200
    assert "Report weekly of 2026-W38" in html
    assert '<strong class="healthy">taken</strong>' in html
    assert json_of_post(server.got[0])["type"] == "thriftgate.reports.cost"
    assert audit_of_reports(dashboard) == [
        ("admin", {"period": "2026-W38", "sent": 1, "failed": 0})
    ]
    assert dashboard.store.report_deliveries.last_deliveries("weekly", 9) == []


def test_a_period_is_named_and_a_refusal_is_told(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/api/v1/reports/scheduled/weekly/send"
    with answering_webhook(404, "SENDING_TEST", monkeypatch):
        answer = dashboard.ask_as(Role.ADMIN, "POST", path, {"period": "2026-W30"})

    assert json.loads(answer.body) == {
        "name": "weekly",
        "period": "2026-W30",
        "results": [{"recipient": "webhook", "failure": "it answered 404."}],
    }
    assert audit_of_reports(dashboard)[0][1] == {"period": "2026-W30", "sent": 0, "failed": 1}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "other"}, "There is no report of this name"),
        ({"name": "weekly", "period": "2026-09"}, "a week is written as 2026-W47"),
        ({"name": "weekly", "period": "2026-W39"}, "2026-W39 has not ended"),
        ({"name": "lost"}, f"there is no team {OWN_TEAM}-gone"),
    ],
)
def test_a_report_that_cannot_be_sent_is_explained(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], text: str
) -> None:
    monkeypatch.setenv("SENDING_TEST_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("SENDING_TEST_SECRET", "s3cret")
    answer = dashboard.ask_as(Role.ADMIN, "POST", "/admin/reports/send", fields)

    assert answer.status in {400, 404}
    assert text in answer.body.decode()
    assert audit_of_reports(dashboard) == []


def test_a_report_without_an_address_names_what_is_missing(dashboard: Dashboard) -> None:
    answer = dashboard.ask_as(Role.ADMIN, "POST", "/admin/reports/send", {"name": "weekly"})

    assert answer.status == 400
    assert "SENDING_TEST_URL is not set" in answer.body.decode()
    page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/reports").body.decode()
    assert "Send weekly now" not in page
