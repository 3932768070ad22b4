"""Scheduled reports on the page of reports: when the next is due, what was sent, what failed."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from dashboards.report_periods import last_period, periods_after
from slo.policies.reports import ReportInterval
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser
WEEK_S = 7 * 86_400.0
ANN, BOB = "mailto:ann@example.com", "mailto:bob@example.com"
REPORTS = """
[[reports]]
name = "weekly"
by = ["team", "feature"]
every = "week"
mail_to = ["ann@example.com", "bob@example.com"]
"""


@pytest.fixture
def weekly_report(gateway: DemoGateway) -> Iterator[None]:
    """A weekly report in the policies file, whose last weeks were sent to one of two people."""
    file = gateway.folder / "policies.toml"
    before = file.read_text(encoding="utf8")
    file.write_text(before + REPORTS, encoding="utf8")
    deliveries, now = gateway.store.report_deliveries, datetime.now(UTC).timestamp()  # noqa: TID251
    for ago in (2, 1, 0):
        last = last_period(ReportInterval.WEEK, "UTC", now - ago * WEEK_S)
        after = partial(periods_after, last=last, every=ReportInterval.WEEK)
        deliveries.schedule("weekly", [ANN, BOB], last, after, now)
    while (mine := deliveries.claim_due("weekly", [ANN], now, 600.0)) is not None:
        deliveries.mark_sent(mine, now)
    for due in (None, now + 3_600):
        failed = deliveries.claim_due("weekly", [BOB], now, 600.0)
        if failed is not None:
            deliveries.mark_failed(failed, "it answered 550", due)
    yield
    file.write_text(before, encoding="utf8")


@pytest.mark.usefixtures("weekly_report")
def test_scheduled_reports_say_when_the_next_is_due_and_what_failed(
    view: tuple[str, BrowserContext], take_picture: Callable[[Page, str], None]
) -> None:
    name, window = view
    page = window.new_page()
    page.goto("/admin/settings")
    page.get_by_role("button", name="Reload files").click()
    page.goto("/admin/reports")
    section = page.locator("#scheduled")

    expect(section).to_contain_text("THRIFTGATE_SMTP_URL is not set")
    expect(section.locator("tbody tr")).to_have_count(4)
    expect(section.locator("tbody tr").filter(has_text="given up")).to_contain_text("550")
    expect(section.get_by_text("sent", exact=True)).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    faults = Axe().run(page).response["violations"]
    assert [fault["id"] for fault in faults if fault["impact"] in {"serious", "critical"}] == []
    section.scroll_into_view_if_needed()
    take_picture(page, f"reports-scheduled-{name}")
