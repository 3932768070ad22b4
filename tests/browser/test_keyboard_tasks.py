"""Tasks of a payer, finance and a person on call, done by the Tab key, Enter and letters alone."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from slo.alert import Alert, Severity, resolve_alert
from tests.browser.conftest import DESKTOP
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser
#: Tabs after which an element counts as out of reach.
_MAX_TABS = 200


@pytest.fixture
def page(admin: BrowserContext) -> Page:
    opened = admin.new_page()
    opened.set_viewport_size(DESKTOP)
    return opened


@pytest.fixture
def alert(gateway: DemoGateway) -> Iterator[Alert]:
    """An open alert of the most urgent kind, until the test ends."""
    now = datetime.now(UTC).timestamp()  # noqa: TID251 - the gateway's own clock
    opened = Alert(
        kind="burn", subject="first-token", severity=Severity.PAGE, began=now - 600,
        title="first-token: 31 of 60 calls had no first token within 1s, by keys",
        facts=(("missed", "31 of 60"),),
    )  # fmt: skip
    gateway.store.outbox.add([opened], {}, now)
    yield opened
    gateway.store.outbox.add([resolve_alert(opened, now)], {}, now)


def focus(page: Page, selector: str) -> None:
    """Press Tab until an element that matches the selector has the focus."""
    for _ in range(_MAX_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"Tab does not reach {selector} on {page.url}")


def press(page: Page, *selectors: str) -> None:
    """Move to an element after the other, and press Enter on each."""
    for selector in selectors:
        focus(page, selector)
        if page.evaluate("document.activeElement.matches('summary')"):
            page.keyboard.press("Enter")
        else:
            with page.expect_navigation(wait_until="networkidle"):
                page.keyboard.press("Enter")


def write(page: Page, selector: str, text: str) -> None:
    """Move to a field, and write into it."""
    focus(page, selector)
    page.keyboard.type(text)


@pytest.mark.parametrize(
    ("start", "selectors", "address"),
    [
        pytest.param("", ["main a[href*='compare=month']"], "/costs", id="month-beside-last"),
        pytest.param("", [".tile a[href$='#measured-title']"], "/savings", id="saved-how-sure"),
        pytest.param("/reports", ["a[href*='/reports/print']"], "/reports/print", id="print"),
        pytest.param("", ["a[href$='/now']", "a[href$='by=route']"], "/now?by=route", id="routes"),
        pytest.param(
            "", [".windows th a", "td[data-name='Slowest'] a"], "/calls/call_", id="slowest-call"
        ),
    ],
)
def test_figure_leads_by_keys_to_what_makes_it(
    page: Page, start: str, selectors: list[str], address: str
) -> None:
    page.goto(f"/admin{start}")
    press(page, *selectors)
    expect(page).to_have_url(re.compile(re.escape(f"/admin{address}")))
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_view_by_two_dimensions_is_named_and_found_again_by_keys(page: Page) -> None:
    page.goto("/admin/costs?by=team&across=model")
    press(page, "details.save summary")
    write(page, ".save-view input", "teams by model")
    page.keyboard.press("Enter")
    page.goto("/admin")
    press(page, ".saved-views a")

    expect(page).to_have_url(re.compile(r"by=team&across=model"))


@pytest.mark.parametrize("form", ["format=csv", "format=focus&"])
def test_report_is_saved_as_a_file_by_keys(page: Page, form: str) -> None:
    page.goto("/admin/reports")
    focus(page, f"main a[href*='{form}']")
    with page.expect_download() as download:
        page.keyboard.press("Enter")

    assert download.value.path().stat().st_size > 0


def test_report_is_scheduled_by_keys(page: Page, gateway: DemoGateway) -> None:
    page.goto("/admin/reports")
    press(page, "#set-reports summary")
    write(page, "#set-reports [name=name]", "by-keys")
    write(page, "#set-reports [name=by]", "team")
    write(page, "#set-reports [name=every]", "week")
    write(page, "#set-reports [name=mail_to]", "ann@example.com")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("by-keys")
    press(page, "main button.main")

    expect(page.locator("#set-policies tbody")).to_contain_text("by-keys")
    gateway.store.policies.remove("reports", "by-keys", "test", 1.0)


def test_now_loads_itself_again_but_not_while_it_is_read_by_keys(page: Page) -> None:
    page.clock.install()
    page.goto("/admin/now")
    focus(page, "main td a, main th a")
    page.evaluate("document.body.dataset.seen = 'before'")
    page.clock.fast_forward(20_000)
    expect(page.locator("body")).to_have_attribute("data-seen", "before")
    page.evaluate("document.activeElement.blur()")
    page.clock.fast_forward(20_000)

    expect(page.locator("body")).not_to_have_attribute("data-seen", "before")


def test_mode_of_planning_is_chosen_and_taken_back_by_keys(page: Page) -> None:
    page.goto("/admin/layouts")
    press(page, "main tbody a")
    mode = page.locator("select[name=mode]").first
    before = mode.input_value()
    for chosen in ("off", before):
        write(page, "select[name=mode]", chosen)
        press(page, "main form button")
        expect(mode).to_have_value(chosen)


def test_alert_is_acknowledged_and_leads_to_its_calls_by_keys(page: Page, alert: Alert) -> None:
    page.goto("/admin")
    press(page, "[role=alert] a")
    expect(page.get_by_role("heading", level=1)).to_have_text(alert.title)
    press(page, "form[action$='/acknowledge'] button")
    expect(page.locator("main")).to_contain_text("looked at by admin")
    press(page, "main a[href*='/calls?']")

    expect(page.get_by_role("heading", level=1)).to_have_text("Calls")


def test_call_is_found_by_its_id_by_keys(page: Page) -> None:
    page.goto("/admin/calls")
    call_id = str(page.locator("main tbody a.id").first.get_attribute("href")).rpartition("/")[2]
    write(page, "input[name=q]", call_id)
    page.keyboard.press("Enter")
    page.wait_for_url("**q=**")
    press(page, "main tbody a.id")

    expect(page).to_have_url(re.compile(call_id))
