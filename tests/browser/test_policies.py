"""A ceiling by form as an administrator sets it, in a real browser: preview, confirm, undo."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.test_pages import Watch
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser
NAME = "support-cent"


@pytest.fixture(autouse=True)
def _remove_what_was_set(gateway: DemoGateway) -> Iterator[None]:
    yield
    gateway.store.policies.remove("ceilings", NAME, "test", 1.0)


def preview(page: Page) -> None:
    page.goto("/admin/objectives")
    page.get_by_text("Set a ceiling on what a call may cost").click()
    form = page.locator("#set-ceilings form")
    form.get_by_label("Name").fill(NAME)
    form.get_by_label("Dollars a call").fill("0.01")
    form.get_by_label("Steps, in order").fill("refuse")
    form.get_by_role("button", name="Preview").click()


def serious_faults(page: Page) -> list[str]:
    faults = Axe().run(page).response["violations"]
    return [fault["id"] for fault in faults if fault["impact"] in {"serious", "critical"}]


def test_a_ceiling_is_previewed_set_and_taken_back(
    admin: BrowserContext, gateway: DemoGateway
) -> None:
    page = admin.new_page()
    watch = Watch(page, gateway.url)
    preview(page)
    expect(page.locator(".difference")).to_contain_text('limit = "0.01"')
    assert serious_faults(page) == []
    page.get_by_role("button", name="Set the ceiling").click()

    row = page.locator("#set-policies tbody tr").filter(has_text=NAME)
    expect(row).to_contain_text("limit 0.01; on_exceed refuse")
    row.get_by_text(f"Change {NAME}").click()
    assert serious_faults(page) == []
    row.get_by_role("button", name=f"Undo the last change of {NAME}").click()
    expect(row).to_have_count(0)
    page.get_by_role("button", name=f"Restore {NAME}").click()
    expect(row).to_have_count(1)
    assert watch.problems == []


def test_the_preview_and_the_open_form_fit_each_view(view: tuple[str, BrowserContext]) -> None:
    page = view[1].new_page()
    preview(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto("/admin/objectives")
    page.get_by_text("Set an objective").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious_faults(page) == []
