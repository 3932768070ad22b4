"""Scheduled reports as people see them: when the next is due, what was sent, and what failed."""

import json
import re
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from dashboards.access import Role
from dashboards.report_periods import last_period, periods_after
from proxy.store.store import Store
from slo.policies.reports import ReportInterval
from tests.fakes.board import NOW
from tests.fakes.dashboard import OWN_TEAM, Dashboard

WEEK = 7 * 86_400.0
ADDRESS = "mailto:ann@example.com"
REPORTS = f"""
[[reports]]
name = "weekly"
every = "week"
mail_to = ["ann@example.com"]

[[reports]]
name = "own-monthly"
team = "{OWN_TEAM}"
every = "month"
url_env = "REPORTS_TEST_URL"
secret_env = "REPORTS_TEST_SECRET"

[[tags]]
name = "own"
team = "{OWN_TEAM}"
keys = ["job"]

[[tags]]
name = "other"
team = "other"
keys = ["customer"]
"""


@pytest.fixture
def policies() -> str:
    return REPORTS


def reports_by_name(dashboard: Dashboard, role: Role = Role.FINANCE) -> dict[str, Any]:
    answer = dashboard.ask_as(role, "GET", "/api/v1/reports/scheduled")
    return {load["name"]: load for load in json.loads(answer.body)}


def page(dashboard: Dashboard, role: Role = Role.FINANCE) -> str:
    return dashboard.ask_as(role, "GET", "/admin/reports").body.decode()


def schedule(store: Store, moment: float) -> None:
    """Schedule the weeks that ended before a moment."""
    last = last_period(ReportInterval.WEEK, "UTC", moment)
    after = partial(periods_after, last=last, every=ReportInterval.WEEK)
    store.report_deliveries.schedule("weekly", [ADDRESS], last, after, moment)


def test_the_next_report_is_due_two_hours_after_its_period_ends(dashboard: Dashboard) -> None:
    weekly = reports_by_name(dashboard)["weekly"]

    assert datetime.fromtimestamp(NOW, UTC).isoformat() == "2026-09-21T14:13:20+00:00"
    assert weekly["next_period"] == "2026-W39"
    due = datetime.fromtimestamp(weekly["next_due"], UTC)
    assert due.isoformat() == "2026-09-28T02:00:00+00:00"
    assert weekly["deliveries"] == []
    assert "Nothing was due yet" in page(dashboard)


def test_deliveries_say_what_was_sent_when_and_what_failed_why(dashboard: Dashboard) -> None:
    store, deliveries = dashboard.store, dashboard.store.report_deliveries
    for ago in (3, 2, 1, 0):
        schedule(store, NOW - ago * WEEK)
    sent = deliveries.claim_due("weekly", [ADDRESS], NOW, 600.0)
    assert sent is not None
    deliveries.mark_sent(sent, NOW - 60)
    failing = deliveries.claim_due("weekly", [ADDRESS], NOW, 600.0)
    assert failing is not None
    deliveries.mark_failed(failing, "it answered 451", NOW + 60)
    lost = deliveries.claim_due("weekly", [ADDRESS], NOW, 600.0)
    assert lost is not None
    deliveries.mark_failed(lost, "it answered 550", None)
    result = {
        delivery["state"]: delivery
        for delivery in reports_by_name(dashboard)["weekly"]["deliveries"]
    }

    assert result["sent"]["sent"] == NOW - 60
    assert (result["failing"]["why"], result["failing"]["due"]) == ("it answered 451", NOW + 60)
    assert (result["given up"]["failed_tries"], result["given up"]["due"]) == (1, None)
    html = page(dashboard)
    assert "it answered 550" in html
    assert "given up" in html


def test_a_report_that_cannot_be_sent_says_what_is_missing(dashboard: Dashboard) -> None:
    text = reports_by_name(dashboard)["weekly"]["problems"]

    assert text == ["The report `weekly` is not mailed: THRIFTGATE_SMTP_URL is not set."]
    assert "REPORTS_TEST_URL is not set" in page(dashboard)


def offered_tags(html: str) -> list[str]:
    return re.findall(r'name="by" value="(tag:[^"]+)"', html)


def test_a_report_offers_the_tags_that_a_viewers_teams_name(dashboard: Dashboard) -> None:
    assert offered_tags(page(dashboard)) == ["tag:customer", "tag:job"]
    assert offered_tags(page(dashboard, Role.VIEWER)) == ["tag:job"]


def test_a_member_sees_reports_of_own_teams_alone(dashboard: Dashboard) -> None:
    assert set(reports_by_name(dashboard, Role.FINANCE)) == {"weekly", "own-monthly"}
    assert set(reports_by_name(dashboard, Role.VIEWER)) == {"own-monthly"}
    assert "ann@example.com" not in page(dashboard, Role.VIEWER)
