"""Every page in a real browser: drawn without an error, from this host alone, for everybody."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

from dashboards.pages import NAVIGATION
from proxy.records.receipt import Outcome
from proxy.store.sql.access.audit_log import AuditedChange
from proxy.store.sql.ledger.inserts import inserter
from tests.fakes.demo_gateway import DemoGateway
from tests.fakes.receipts import a_receipt

pytestmark = pytest.mark.browser

#: Faults of axe-core that keep people out.
_SERIOUS = {"serious", "critical"}
PATHS = [page.path for group in NAVIGATION for page in group.entries]
#: Pages as filters, splits, faults of a question and prints have them.
VARIANTS = (
    "/costs?by=user",
    "/costs?by=nothing",
    "/costs?from=2020-01-01&to=2020-01-31",
    "/reports?by=team,feature,model,day",
    "/reports/print?by=team,model",
    "/now?window=6h",
    "/latency?metric=duration&by=route",
    "/calls?error=none_such",
    "/calls/call_00000000000000000000000000000000",
)


class Watch:
    """All that a page logs, and all hosts that it asks."""

    def __init__(self, page: Page, url: str) -> None:
        self._url = url
        self.problems: list[str] = []
        page.on("console", self._log)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", self._request)

    def _log(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(message.text)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self._url, "data:", "blob:")):
            self.problems.append(f"asked another host: {request.url}")


def test_every_page_of_the_menu_is_drawn_without_a_fault(
    view: tuple[str, BrowserContext],
    gateway: DemoGateway,
    take_picture: Callable[[Page, str], None],
) -> None:
    name, window = view
    page = window.new_page()
    watch = Watch(page, gateway.url)
    for path in PATHS:
        answer = page.goto(f"/admin{path}")
        assert answer is not None
        assert answer.status == 200, path
        page.wait_for_load_state("networkidle")
        if page.locator("figure[data-chart] tbody tr").count():
            page.locator("figure[data-chart]").first.scroll_into_view_if_needed()
            page.wait_for_selector("figure[data-drawn] svg.plot")
        assert watch.problems == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        page.evaluate("scrollTo(0, 0)")
        take_picture(page, f"{path.strip('/').replace('/', '-') or 'overview'}-{name}")


@pytest.fixture
def failed_call(gateway: DemoGateway) -> str:
    """The path of the page of a call that its upstream failed."""
    now = datetime.now(UTC).timestamp()  # noqa: TID251 - the gateway's own clock
    receipt = a_receipt(
        call_id=f"call_{int(now * 1_000):012x}7{0:019x}",
        team=gateway.store.teams.all()[0].id,
        started=now - 60,
        status=502,
        outcome=Outcome.FAILED,
        error="upstream_error",
    )
    inserter(gateway.store._engine)([receipt])
    return f"/calls/{receipt.call_id}"


def serious_faults(window: BrowserContext, paths: Iterable[str]) -> list[tuple[str, str, Any]]:
    """Serious faults that axe finds on pages: path, rule and where."""
    page = window.new_page()
    faults = []
    for path in paths:
        page.goto(f"/admin{path}")
        page.wait_for_load_state("networkidle")
        violations = Axe().run(page).response["violations"]
        faults += [
            (path, fault["id"], [node["target"] for node in fault["nodes"]][:3])
            for fault in violations
            if fault["impact"] in _SERIOUS
        ]
    return faults


def test_axe_finds_no_serious_fault_on_any_page(view: tuple[str, BrowserContext]) -> None:
    assert serious_faults(view[1], PATHS) == []


def test_axe_finds_no_serious_fault_on_prints_filters_and_failed_calls(
    view: tuple[str, BrowserContext], failed_call: str
) -> None:
    assert serious_faults(view[1], [*VARIANTS, failed_call]) == []


@pytest.mark.parametrize("path", ["", "/costs", "/latency", "/cache"])
def test_every_plot_over_time_marks_the_events_of_its_list(
    admin: BrowserContext, gateway: DemoGateway, path: str
) -> None:
    now = datetime.now(UTC).timestamp()  # noqa: TID251 - the gateway's own clock
    change = AuditedChange(who="ann", action="set layout mode", subject="chat")
    gateway.store.audit.append(change, now)
    page = admin.new_page()
    page.goto(f"/admin{path}")
    for figure in page.locator("figure[data-chart]").all():
        figure.scroll_into_view_if_needed()
        figure.locator("svg.plot").wait_for()

    shown = page.evaluate(
        "[...document.querySelectorAll('figure[data-chart]')].map(figure => ["
        "figure.querySelectorAll('svg .event').length,"
        "figure.querySelectorAll('.events li').length])"
    )
    assert shown
    assert all(marks == events > 0 for marks, events in shown), shown


def test_without_javascript_every_page_still_tells_its_figures(
    view: tuple[str, BrowserContext], gateway: DemoGateway
) -> None:
    _, window = view
    browser = window.browser
    assert browser is not None
    plain = browser.new_context(
        base_url=gateway.url, storage_state=window.storage_state(), java_script_enabled=False
    )
    page = plain.new_page()
    page.goto("/admin/costs")
    assert page.locator("#breakdown-title").is_visible()
    plain.close()


def test_the_keyboard_reaches_the_content_and_the_menu(admin: BrowserContext) -> None:
    page = admin.new_page()
    page.goto("/admin")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
