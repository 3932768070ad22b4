"""Signing in by a link and by a password, and changing it, as a person does in a browser."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from dashboards.access import Role
from tests.browser.conftest import VIEWS, View
from tests.browser.test_pages import Watch
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser
FIRST, SECOND = "correct horse battery", "staple of a hundred nails"
_NUMBERS = count()


@pytest.fixture
def stranger(chromium: Browser, gateway: DemoGateway) -> Iterator[Page]:
    """A page of a window without a session, which logs nothing and asks no other host."""
    context = chromium.new_context(base_url=gateway.url)
    page = context.new_page()
    watch = Watch(page, gateway.url)
    yield page
    watch.problems = [problem for problem in watch.problems if "status of 4" not in problem]
    assert watch.problems == []
    context.close()


def sign_in(page: Page, name: str, password: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def set_password(page: Page, password: str, current: str = "", again: str = "") -> None:
    page.goto("/admin/account")
    if current:
        page.get_by_label("Current password").fill(current)
    page.get_by_label("New password, 12 characters or more").fill(password)
    page.get_by_label("New password again").fill(again or password)
    page.get_by_role("button", name="Set the password").click()


def test_a_password_is_set_changed_and_leads_to_the_page_that_was_wanted(
    stranger: Page, gateway: DemoGateway
) -> None:
    name, now = f"eve-{next(_NUMBERS)}", datetime.now(UTC).timestamp()  # noqa: TID251
    gateway.store.users.create(name, Role.FINANCE, now=now)
    code = gateway.store.users.create_link(name, now=now)
    stranger.goto(f"/admin/sign-in?code={code}")
    stranger.get_by_role("button", name="Sign in by this link").click()
    set_password(stranger, FIRST, again=SECOND)
    expect(stranger.get_by_role("alert")).to_contain_text("The two new passwords differ")
    set_password(stranger, FIRST)
    expect(stranger.locator("main h2").first).to_have_text("Another password")
    stranger.get_by_role("button", name="Sign out").click()

    stranger.goto("/admin/costs?by=model")
    expect(stranger.get_by_role("heading", level=1)).to_have_text("Sign in")
    sign_in(stranger, name, SECOND)
    expect(stranger.get_by_role("alert")).to_be_visible()
    sign_in(stranger, name, FIRST)
    expect(stranger.get_by_role("heading", level=1)).to_have_text("Costs")
    assert stranger.url.endswith("/admin/costs?by=model")

    set_password(stranger, SECOND, current=SECOND)
    expect(stranger.get_by_role("alert")).to_be_visible()
    set_password(stranger, SECOND, current=FIRST)
    stranger.get_by_role("button", name="Sign out").click()
    stranger.goto("/admin/sign-in")
    sign_in(stranger, name, SECOND)
    expect(stranger.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_link_signs_in_once(stranger: Page, gateway: DemoGateway) -> None:
    name, now = f"once-{next(_NUMBERS)}", datetime.now(UTC).timestamp()  # noqa: TID251
    gateway.store.users.create(name, Role.FINANCE, now=now)
    code = gateway.store.users.create_link(name, now=now)
    for heading in (name, "Sign in"):
        stranger.context.clear_cookies()
        stranger.goto(f"/admin/sign-in?code={code}")
        stranger.get_by_role("button", name="Sign in by this link").click()
        expect(stranger.get_by_role("heading", level=1)).to_contain_text(heading)
    expect(stranger.get_by_role("alert")).to_be_visible()


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_the_page_of_signing_in_reads_well(
    chromium: Browser,
    gateway: DemoGateway,
    take_picture: Callable[[Page, str], None],
    view: View,
) -> None:
    context = chromium.new_context(
        base_url=gateway.url, viewport=view.viewport, color_scheme=view.color_scheme
    )
    page = context.new_page()
    watch = Watch(page, gateway.url)
    page.goto("/admin")

    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    faults = Axe().run(page).response["violations"]
    assert [fault["id"] for fault in faults if fault["impact"] in {"serious", "critical"}] == []
    assert watch.problems == []
    take_picture(page, f"sign-in-{view.name}")
    context.close()
