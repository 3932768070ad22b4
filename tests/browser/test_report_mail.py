"""The mail of a cost report as a mail program draws it: nothing loaded, nothing cut."""

from collections.abc import Callable
from datetime import date

import pytest
from playwright.sync_api import Browser, Page

from dashboards.cost_reports import CostReport, CostRow, CostSums
from dashboards.report_mail import report_mail
from dashboards.reports import ReportPeriod
from slo.usage import Usage

pytestmark = pytest.mark.browser
PERIOD = ReportPeriod(first=date(2026, 11, 16), end=date(2026, 11, 23), zone="Europe/Berlin")
ROWS = (
    ("agent:claude-code", "claude-sonnet-5-5", 954_637_033_510),
    ("nightly-evaluation-of-documents", "gpt-5.6-terra", 580_322_646_067),
    ("support", "gpt-5.6-luna", 175_724_621_941),
    ("", "gpt-5.6-luna", 4_200_001),
)


def report() -> CostReport:
    rows = [
        CostRow(
            (feature, model),
            CostSums(
                calls=nanos // 20_000_000,
                attempts=1,
                errors=3,
                priced_list_nanos=nanos * 11 // 10,
                priced_nanos=nanos,
                usage=Usage(input=nanos // 2_000, output=nanos // 40_000),
            ),
        )
        for feature, model, nanos in ROWS
    ]
    return CostReport(period=PERIOD, by=("feature", "model"), rows=tuple(rows))


@pytest.mark.parametrize("width", [900, 390])
def test_a_mail_reads_well_on_a_desktop_and_on_a_phone(
    chromium: Browser, take_picture: Callable[[Page, str], None], width: int
) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 860})
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.set_content(report_mail("weekly", report(), {}, "assistants").html)

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.get_by_text("$954.64").is_visible()
    assert page.get_by_text("$1,710.69", exact=True).is_visible()
    assert requests == []
    take_picture(page, f"report-mail-{width}")
    page.close()
