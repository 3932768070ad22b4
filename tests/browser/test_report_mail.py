"""The mail of a cost report as a mail program draws it: nothing loaded, nothing cut."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from dashboards.cost_reports import CostSums
from dashboards.report_mail import report_mail
from dashboards.report_summary.read_report import ReadReport
from dashboards.reports import ReportPeriod
from slo.usage import Usage
from tests.fakes.read_reports import a_read_report, costs_of

pytestmark = pytest.mark.browser
PERIOD = ReportPeriod(first=date(2026, 11, 16), end=date(2026, 11, 23), zone="Europe/Berlin")
ROWS = (
    ("agent:claude-code", "claude-sonnet-5-5", 954_637_033_510),
    ("nightly-evaluation-of-documents", "gpt-5.6-terra", 580_322_646_067),
    ("support", "gpt-5.6-luna", 175_724_621_941),
    ("", "gpt-5.6-luna", 4_200_001),
)


def read_report() -> ReadReport:
    rows = [
        (
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
    costs = costs_of(PERIOD, *((feature, nanos, nanos // 2) for feature, _, nanos in ROWS))
    shares = (9, 11, 12, 14, 13, 3, 2)
    series = [
        replace(each, cost_nanos=[(each.sums.cost_nanos or 0) * part // 64 for part in shares])
        for each in costs.series
    ]
    return a_read_report(PERIOD, ("feature", "model"), rows, costs=replace(costs, series=series))


@pytest.mark.parametrize("colors", ["light", "dark"])
@pytest.mark.parametrize("width", [900, 390, 320])
def test_a_mail_reads_well_on_a_desktop_and_on_a_phone(
    chromium: Browser,
    take_picture: Callable[[Page, str], None],
    width: int,
    colors: Literal["light", "dark"],
) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 1100}, color_scheme=colors)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.set_content(report_mail("weekly", read_report(), "assistants").html)

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.get_by_text("$954.64", exact=True).is_visible()
    assert page.get_by_text("$1,710.69", exact=True).is_visible()
    assert requests == []
    card = "getComputedStyle(document.querySelector('.card')).backgroundColor"
    assert page.evaluate(card) == {"light": "rgb(255, 255, 255)", "dark": "rgb(25, 28, 34)"}[colors]
    take_picture(page, f"report-mail-{width}-{colors}")
    page.close()
