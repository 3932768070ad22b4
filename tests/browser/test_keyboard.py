"""Pages without a mouse: Tab reaches all that can be pressed, and tasks can be done by keys."""

from typing import Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import DESKTOP, PHONE
from tests.browser.test_pages import PATHS
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser

#: Tabs after which an element counts as out of reach.
_MAX_TABS: Final = 150
#: Numbers all visible elements that Tab should reach; how many there are. Of the boxes and radio
#: buttons of a group and of the hidden parts of a date there is one each.
_NUMBER: Final = """() => {
  const all = "a[href], button, input:not([type=hidden]), select, textarea, summary"
    + ", [tabindex='0']";
  const seen = [...document.querySelectorAll(all)].filter((element) =>
    element.checkVisibility({ visibilityProperty: true }) && !element.disabled
    && element.tabIndex >= 0 && element.type !== "radio");
  seen.forEach((element, index) => { element.dataset.stop = index; });
  return seen.length;
}"""
#: The number of the focused element, its text, and if anything is drawn around it.
_FOCUSED: Final = """() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  const isSeen = style.outlineStyle !== "none" || style.boxShadow !== "none";
  const name = element.getAttribute("aria-label") || element.labels?.[0]?.textContent
    || element.textContent || element.title;
  return [element.dataset.stop ?? "", name.trim().replace(/\\s+/g, " "), isSeen];
}"""


def walk(page: Page, count: int) -> tuple[set[str], list[str]]:
    """Numbers of the elements that Tab reaches, and names of those whose focus is not seen."""
    reached, unseen = set[str](), []
    for _ in range(2 * count + 10):
        page.keyboard.press("Tab")
        stop, name, is_seen = page.evaluate(_FOCUSED)
        if stop:
            reached.add(stop)
            if not is_seen:
                unseen.append(name)
        elif len(reached) >= count:
            break
    return reached, unseen


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element whose name begins so has the focus."""
    for _ in range(_MAX_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(_FOCUSED)[1].startswith(name):
            return
    pytest.fail(f"Tab does not reach {name!r} on {page.url}")


@pytest.fixture
def page(admin: BrowserContext) -> Page:
    opened = admin.new_page()
    opened.set_viewport_size(DESKTOP)
    return opened


@pytest.mark.parametrize("path", PATHS)
def test_tab_reaches_all_that_can_be_pressed_and_shows_where_it_is(page: Page, path: str) -> None:
    page.goto(f"/admin{path}")
    page.wait_for_load_state("networkidle")
    count = page.evaluate(_NUMBER)
    reached, unseen = walk(page, count)
    missed = page.evaluate(
        "reached => [...document.querySelectorAll('[data-stop]')].filter(element =>"
        " !reached.includes(element.dataset.stop)).map(element => element.outerHTML.slice(0, 120))",
        list(reached),
    )

    assert missed == []
    assert unseen == []


def test_costs_of_a_week_are_found_split_sorted_and_read_by_keys(page: Page) -> None:
    page.goto("/admin")
    tab_to(page, "Costs")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/costs")
    tab_to(page, "7 d")
    page.keyboard.press("Enter")
    page.wait_for_url("**from=**")
    select = page.locator("main select[name=by]")
    while not select.evaluate("element => element === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.type("feature")
    page.keyboard.press("Enter")
    tab_to(page, "Show")
    page.keyboard.press("Enter")
    page.wait_for_url("**by=feature**")

    tab_to(page, "Cost")
    page.keyboard.press("Enter")
    expect(page.locator("main th[aria-sort]").first).to_be_visible()


def test_a_call_is_found_by_a_filter_and_opened_by_keys(page: Page) -> None:
    page.goto("/admin/calls?feature=support-chat")
    link = page.locator("main tbody a.id").first
    for _ in range(_MAX_TABS):
        page.keyboard.press("Tab")
        if link.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/calls/call_**")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Call")


def test_a_budget_is_previewed_and_set_by_keys(page: Page, gateway: DemoGateway) -> None:
    page.goto("/admin/budgets")
    form = page.locator("form[action$='/budgets/preview']").last
    name = form.get_by_label("Name")
    for _ in range(_MAX_TABS):
        page.keyboard.press("Tab")
        if name.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.type("by-keys")
    tab_to(page, "Whose")
    page.keyboard.type("acme-support")
    tab_to(page, "Limit")
    page.keyboard.type("12.5")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Preview of budget by-keys")
    tab_to(page, "Set the budget")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Budgets and alerts")

    assert "by-keys" in {stored.budget.name for stored in gateway.store.budgets.all()}
    gateway.store.budgets.remove("by-keys", "test", 1.0)


def test_drawer_of_a_phone_opens_leads_and_closes_by_keys(
    chromium: Browser, gateway: DemoGateway, session_state: object
) -> None:
    phone = chromium.new_context(
        base_url=gateway.url, storage_state=str(session_state), viewport=PHONE
    )
    page = phone.new_page()
    page.goto("/admin")
    drawer = page.locator("#pages")
    expect(drawer).to_be_hidden()
    tab_to(page, "Menu")
    page.keyboard.press("Enter")
    expect(drawer).to_be_visible()
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    page.keyboard.press("Enter")
    tab_to(page, "Savings")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/savings")
    expect(drawer).to_be_hidden()
    phone.close()
