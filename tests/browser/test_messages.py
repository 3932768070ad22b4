"""Reports and test alerts that an administrator sends from their pages."""

from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.test_access import audit_row
from tests.fakes.alerts import json_of_post
from tests.fakes.background_loop import running_in_thread
from tests.fakes.demo_gateway import DemoGateway
from tests.fakes.server import Server, head, serving

pytestmark = pytest.mark.browser
POLICIES = """
[[reports]]
name = "by-hand"
every = "month"
url_env = "BROWSER_TEST_URL"
secret_env = "BROWSER_TEST_SECRET"

[[sinks]]
name = "hook"
kind = "webhook"
url_env = "BROWSER_TEST_URL"
secret_env = "BROWSER_TEST_SECRET"

[[sinks]]
name = "chat"
kind = "slack"
url_env = "BROWSER_TEST_CHAT"
"""


@pytest.fixture
def server(gateway: DemoGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that takes one message, with a report and a sink that lead to it."""

    @asynccontextmanager
    async def make():
        async with serving([head(200, "content-length: 0")]) as serving_one:
            yield serving_one

    file = gateway.folder / "policies.toml"
    before = file.read_text(encoding="utf8")
    file.write_text(before + POLICIES, encoding="utf8")
    with running_in_thread(make) as made:
        monkeypatch.setenv("BROWSER_TEST_URL", f"http://127.0.0.1:{made.port}/xyzzy")
        monkeypatch.setenv("BROWSER_TEST_SECRET", "s3cret")
        yield made
    file.write_text(before, encoding="utf8")


def open_after_reload(window: BrowserContext, path: str) -> Page:
    """A page, once the gateway has read its files again."""
    page = window.new_page()
    page.goto("/admin/settings")
    page.get_by_role("button", name="Reload files").click()
    page.goto(path)
    return page


def test_a_report_is_sent_at_once_and_stands_in_the_audit_log(
    admin: BrowserContext, server: Server
) -> None:
    page = open_after_reload(admin, "/admin/reports")
    page.get_by_role("button", name="Send by-hand now").click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("Report by-hand of 20")
    expect(page.get_by_role("listitem").filter(has_text="webhook")).to_contain_text("taken")
    assert json_of_post(server.got[0])["type"] == "thriftgate.reports.cost"
    page.get_by_role("link", name="Back").click()
    page.get_by_label("Period", exact=True).fill("2026-W01")
    page.get_by_role("button", name="Send by-hand now").click()
    expect(page.get_by_role("alert")).to_contain_text("a month is written as")
    audit_row(page, "send report", "by-hand")


def test_a_sink_is_tested_on_the_page_of_alerts(
    view: tuple[str, BrowserContext], server: Server, take_picture: Callable[[Page, str], None]
) -> None:
    name, window = view
    page = open_after_reload(window, "/admin/budgets")
    section = page.locator("#sinks")

    expect(section).to_contain_text("BROWSER_TEST_CHAT is not set")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    faults = Axe().run(page).response["violations"]
    assert [fault["id"] for fault in faults if fault["impact"] in {"serious", "critical"}] == []
    section.scroll_into_view_if_needed()
    take_picture(page, f"sinks-{name}")
    section.get_by_role("button", name="Send a test alert to hook").click()
    expect(page.get_by_role("listitem").filter(has_text="hook")).to_contain_text("taken")
    (alert,) = json_of_post(server.got[0])["data"]["alerts"]
    assert alert["title"].startswith("TEST: ")
    audit_row(page, "test sink", "hook")
