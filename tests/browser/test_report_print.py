"""The print view of a report on paper: two pages, in light colours, with its chart drawn."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from tests.fakes.demo_gateway import DemoGateway
from tests.fakes.receipts import a_receipt

pytestmark = pytest.mark.browser
FEATURES = 200
#: A month long before the demo's calls, and the one before it.
FIRST = datetime(2025, 2, 1, tzinfo=UTC)
MANY = "/admin/reports/print?by=team,feature,model&from=2025-03-01&to=2025-03-31&tz=Europe/Berlin"
DEMO = "/admin/reports/print?by=team,feature"
LIGHT = "rgb(255, 255, 255)"


@pytest.fixture(scope="module")
def many_features(gateway: DemoGateway) -> None:
    """Calls of 200 features with long names, spread over two months; some have no known price."""
    receipts = []
    for n in range(2 * FEATURES):
        started = FIRST + timedelta(hours=3.4 * n)
        receipts.append(
            a_receipt(
                n,
                call_id=id_floor(started.timestamp())[:-4] + f"{n:04x}",
                started=started.timestamp(),
                team="a-team-with-a-name-that-nobody-would-choose",
                feature=f"assistant-of-department-{n % FEATURES:03}-with-quite-a-long-name",
                cost_nanos=None if n % 50 == 7 else 10**9 * (n % FEATURES + 1),
                list_nanos=None if n % 50 == 7 else 2 * 10**9 * (n % FEATURES + 1),
            )
        )
    assert inserter(gateway.store._engine)(receipts) is None


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))


@pytest.mark.usefixtures("many_features")
@pytest.mark.parametrize("address", [DEMO, MANY], ids=["demo", "200-features"])
@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_a_report_is_printed_on_two_pages(admin: BrowserContext, address: str, paper: str) -> None:
    page = admin.new_page()
    page.goto(address)

    assert pages_of(page.pdf(format=paper)) == 2
    assert pages_of(page.pdf(format=paper, print_background=True)) == 2


@pytest.mark.usefixtures("many_features")
def test_a_print_without_scripts_has_two_pages_too(
    chromium: Browser, gateway: DemoGateway, admin: BrowserContext
) -> None:
    window = chromium.new_context(
        base_url=gateway.url, storage_state=admin.storage_state(), java_script_enabled=False
    )
    page = window.new_page()
    page.goto(MANY)

    assert pages_of(page.pdf(format="A4")) == 2
    window.close()


@pytest.mark.usefixtures("many_features")
def test_a_print_is_light_with_its_chart_and_words_whatever_the_screen_has(
    view: tuple[str, BrowserContext], take_picture: Callable[[Page, str], None]
) -> None:
    name, window = view
    page = window.new_page()
    page.goto(MANY)
    page.locator("figure").scroll_into_view_if_needed()
    expect(page.locator("figure[data-drawn] .bar").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    take_picture(page, f"report-print-{name}")
    page.emulate_media(media="print")

    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == LIGHT
    expect(page.get_by_text("Back to the report")).to_be_hidden()
    expect(page.locator(".summary")).to_contain_text("Spend")
    expect(page.locator(".rows .rest")).to_contain_text("and 164 more: $13,198.00")
    take_picture(page, f"report-printed-{name}")
