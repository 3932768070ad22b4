"""Live calls on their page: those that the page's filters let through, as they end."""

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.test_access import make_key, status
from tests.browser.test_pages import Watch
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser


def test_calls_appear_as_they_end_by_the_filters_of_the_page_until_it_is_stopped(
    admin: BrowserContext, gateway: DemoGateway
) -> None:
    page = admin.new_page()
    secret = make_key(page, "live-tail")
    watch = Watch(page, gateway.url)
    key = (
        page.locator("#keys tbody tr")
        .filter(has_text="live-tail")
        .locator(".id")
        .first.inner_text()
    )
    page.goto(f"/admin/calls?key={key}&model=gpt-5.6-terra")
    page.get_by_role("button", name="Follow live").click()
    expect(page.locator("#live-state")).to_contain_text("as they end")
    rows = page.locator("section[aria-labelledby=calls-title] tbody tr")
    expect(rows).to_contain_text(["No calls"])
    for model in ("gpt-5.6-terra", "gpt-5.6-luna", "gpt-5.6-terra"):
        assert status(gateway, secret, model) == 200

    expect(rows).to_have_count(2)
    newest = rows.first
    expect(newest.locator("[data-name=Model]")).to_have_text("gpt-5.6-terra")
    expect(newest.locator("[data-name=Outcome]")).to_have_text("answered")
    expect(newest.locator("[data-name=Cost]")).to_have_text(re.compile(r"^\$0\.\d+$"))
    page.get_by_role("button", name="Stop").click()
    assert status(gateway, secret) == 200
    expect(page.locator("#live-state")).to_contain_text("Stopped")
    page.wait_for_timeout(1500)
    expect(rows).to_have_count(2)

    newest.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Call")
    assert watch.problems == []
