"""Pages of one call, one miss, one feature and one's own account, in a real browser."""

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.conftest import DESKTOP
from tests.browser.test_pages import Watch
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser
_SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def paths(chromium: Browser, gateway: DemoGateway, session_state: object) -> dict[str, str]:
    """Paths of a call with cache marks, of the dearest miss, of a feature, and of the account."""
    context = chromium.new_context(base_url=gateway.url, storage_state=str(session_state))
    page = context.new_page()
    page.goto("/admin/cache")
    miss = page.locator("td[data-name=Example] a").first.get_attribute("href") or ""
    page.goto("/admin")
    feature = page.locator(".steps a").first.get_attribute("href") or ""
    page.goto("/admin/calls")
    links = page.locator("section[aria-labelledby=calls-title] tbody a.id")
    calls = [link.get_attribute("href") or "" for link in links.all()]
    call = next(call for call in calls if is_drawn_in_full(page, call))
    context.close()
    return {
        "call": call,
        "miss": miss,
        "feature": feature,
        "account": "/admin/account",
    }


def is_drawn_in_full(page: Page, call: str) -> bool:
    """True if a call's page draws cache marks, and what was read from the cache."""
    page.goto(call)
    return all(page.locator(f"svg.segments .{part}").count() for part in ("mark", "read"))


def test_pages_of_one_thing_are_drawn_without_a_fault(
    view: tuple[str, BrowserContext],
    gateway: DemoGateway,
    paths: dict[str, str],
    take_picture: Callable[[Page, str], None],
) -> None:
    name, window = view
    page = window.new_page()
    watch = Watch(page, gateway.url)
    for kind, path in paths.items():
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        faults = Axe().run(page).response["violations"]
        assert [fault["id"] for fault in faults if fault["impact"] in _SERIOUS] == [], path
        assert watch.problems == [], path
        take_picture(page, f"{kind}-{name}")


def test_a_prompts_bar_stands_below_its_heading_and_has_the_shares_of_its_table(
    chromium: Browser, gateway: DemoGateway, session_state: object, paths: dict[str, str]
) -> None:
    context = chromium.new_context(
        base_url=gateway.url, storage_state=str(session_state), viewport=DESKTOP
    )
    page = context.new_page()
    page.goto(paths["call"])
    bar = page.locator("svg.segments").bounding_box()
    heading = page.get_by_role("heading", name="Prompt as it was sent").bounding_box()
    parts = page.evaluate(
        "[...document.querySelectorAll('svg.segments rect:not(.read, .written, .new, .mark)')].map("
        "each => each.getBoundingClientRect().width)"
    )
    tokens = page.evaluate(
        "[...document.querySelectorAll('figure.prompt tbody tr')].map("
        "row => Number(row.cells[1].textContent.replaceAll(',', '')))"
    )
    context.close()

    assert bar is not None
    assert heading is not None
    assert heading["y"] + heading["height"] <= bar["y"]
    expected = [count * bar["width"] / sum(tokens) for count in tokens]
    assert parts == pytest.approx(expected, abs=1.0)
