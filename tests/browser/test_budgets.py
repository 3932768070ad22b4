"""The budgets form as an administrator fills it in, in a real browser."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from slo.alert import Alert, Severity, resolve_alert
from slo.budgets.budget import Budget, HoldPolicy, OnStoreLoss, UnpricedPolicy
from tests.browser.test_pages import Watch
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser
NAME = "support-day"


@pytest.fixture(autouse=True)
def _remove_what_was_set(gateway: DemoGateway) -> Iterator[None]:
    yield
    gateway.store.budgets.remove(NAME, "test", 1.0)


def stored_budget(gateway: DemoGateway) -> Budget | None:
    budgets = {stored.budget.name: stored.budget for stored in gateway.store.budgets.all()}
    return budgets.get(NAME)


def fill(page: Page) -> None:
    page.goto("/admin/budgets")
    form = page.locator("form[action$='/budgets/preview']").last
    form.get_by_label("Name").fill(NAME)
    form.get_by_label("Whose").fill("acme-support")
    form.get_by_label("Window").select_option("day")
    form.get_by_label("Limit", exact=True).fill("12.5")


def set_previewed(page: Page) -> None:
    """Go on to the preview of the form, and set the budget there."""
    page.get_by_role("button", name="Preview").last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Preview of budget {NAME}")
    page.get_by_role("button", name="Set the budget").click()


def test_a_budget_is_set_with_all_that_the_policies_file_can_say(
    admin: BrowserContext, gateway: DemoGateway
) -> None:
    page = admin.new_page()
    watch = Watch(page, gateway.url)
    fill(page)
    page.get_by_text("Alerts, and what else it does").last.click()
    page.get_by_label("Held for a running call").last.select_option("worst")
    page.get_by_label("While the counters are unreachable").last.select_option("local_quota")
    page.get_by_label("Calls of unknown price").last.select_option("refuse")
    page.get_by_label("Notify at these percents of the limit").last.fill("60, 90")
    set_previewed(page)

    row = page.locator("#set-budgets tbody tr").filter(has_text=NAME)
    expect(row).to_contain_text("12.5 usd")
    expect(row).to_contain_text("refuses beyond; notifies at 60, 90 %")
    row.get_by_text(f"Change {NAME}").click()
    row.get_by_text("Alerts, and what else it does").click()
    expect(row.get_by_label("While the counters are unreachable")).to_have_value("local_quota")
    budget = stored_budget(gateway)
    assert budget is not None
    assert (budget.hold, budget.on_loss, budget.unpriced, budget.alerts) == (
        HoldPolicy.WORST,
        OnStoreLoss.LOCAL_QUOTA,
        UnpricedPolicy.REFUSE,
        (60, 90),
    )
    assert watch.problems == []


def test_a_budget_is_changed_and_removed_and_the_audit_log_says_by_whom(
    admin: BrowserContext, gateway: DemoGateway
) -> None:
    page = admin.new_page()
    fill(page)
    set_previewed(page)
    row = page.locator("#set-budgets tbody tr").filter(has_text=NAME)
    row.get_by_text(f"Change {NAME}").click()
    row.get_by_label("Limit in usd").fill("20")
    row.get_by_text("Alerts, and what else it does").click()
    row.get_by_label("Notify at these percents of the limit").fill("none")
    row.get_by_role("button", name="Preview").click()
    expect(page.locator(".difference")).to_contain_text("alerts = []")
    page.get_by_role("button", name="Set the budget").click()

    expect(row).to_contain_text("20 usd")
    budget = stored_budget(gateway)
    assert budget is not None
    assert budget.alerts == ()
    row.get_by_text(f"Change {NAME}").click()
    page.get_by_role("button", name=f"Remove the budget {NAME}").click()
    expect(row).to_have_count(0)
    assert stored_budget(gateway) is None
    page.goto("/admin/audit?who=admin")
    for action in ("create budget", "change budget", "remove budget"):
        done = page.locator("#changes tbody tr").filter(has_text=action).first
        expect(done).to_contain_text(NAME)
        expect(done.get_by_role("rowheader")).to_have_text("admin")


def test_a_budget_that_cannot_be_is_explained_and_its_form_stays_as_it_was(
    admin: BrowserContext, gateway: DemoGateway
) -> None:
    page = admin.new_page()
    fill(page)
    page.get_by_label("Whose").last.fill("acme-suport")
    page.get_by_role("button", name="Preview").last.click()

    expect(page.get_by_role("alert")).to_contain_text("There is no team acme-suport")
    expect(page.get_by_role("heading", level=1)).to_have_text("Budgets and alerts")
    expect(page.get_by_label("Whose").last).to_have_value("acme-suport")
    assert stored_budget(gateway) is None


def test_the_page_with_a_budget_and_its_open_form_reads_well(
    view: tuple[str, BrowserContext], take_picture: Callable[[Page, str], None]
) -> None:
    name, window = view
    page = window.new_page()
    fill(page)
    set_previewed(page)
    page.get_by_text(f"Change {NAME}").click()
    page.get_by_text("Alerts, and what else it does").last.click()

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    faults = Axe().run(page).response["violations"]
    assert [fault["id"] for fault in faults if fault["impact"] in {"serious", "critical"}] == []
    page.set_viewport_size({"width": page.viewport_size["width"], "height": 2200})  # type: ignore[index]
    take_picture(page, f"budgets-form-{name}")


def test_an_alert_leads_from_the_first_page_to_its_calls_in_two_clicks(
    view: tuple[str, BrowserContext],
    gateway: DemoGateway,
    take_picture: Callable[[Page, str], None],
) -> None:
    name, window = view
    now = datetime.now(UTC).timestamp()  # noqa: TID251 - the gateway's own clock
    alert = Alert(
        kind="burn", subject="first-token", severity=Severity.PAGE, began=now - 600,
        title=f"first-token: 31 of 60 calls had no first token within 1s, {name}",
        facts=(("missed", "31 of 60"),),
    )  # fmt: skip
    gateway.store.outbox.add([alert], {}, now)
    page = window.new_page()
    page.goto("/admin")
    page.get_by_role("alert").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(alert.title)
    page.get_by_role("button", name="Acknowledge", exact=True).click()
    expect(page.locator("main")).to_contain_text("looked at by admin")
    faults = Axe().run(page).response["violations"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    take_picture(page, f"alert-{name}")
    page.get_by_role("link", name=re.compile("Its .*call.* up to")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Calls")
    page.goto(f"/admin/alerts/{alert.id}")
    page.get_by_role("button", name="Snooze for 1 hour").click()
    expect(page.get_by_role("button", name="End the snooze")).to_be_visible()
    page.goto("/admin")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.locator(".alert-line").filter(has_text=alert.title)).to_have_count(0)
    gateway.store.outbox.add([resolve_alert(alert, now)], {}, now)

    assert faults == []
