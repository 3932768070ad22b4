"""Forms of the pages as a person fills them in."""

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from compaction.policy import CompactionMode
from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser


def test_a_proposed_layout_is_applied_from_the_first_page(
    admin: BrowserContext, gateway: DemoGateway
) -> None:
    page = admin.new_page()
    page.goto("/admin")
    page.get_by_role("button", name="Apply").first.click()

    expect(page.get_by_role("heading", level=1)).to_contain_text("Feature")
    held = gateway.store.layouts.states()
    assert any(held.of(place).version for place in held.places)
    page.get_by_role("button", name=re.compile("Roll back layout")).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Feature")


def test_planning_and_compaction_modes_are_chosen(
    admin: BrowserContext, gateway: DemoGateway
) -> None:
    page = admin.new_page()
    page.goto("/admin/layouts")
    page.locator("tbody th a").first.click()
    page.locator("select[name=compaction]").select_option("facts")
    page.get_by_role("button", name="Set compaction").click()

    expect(page.locator("select[name=compaction]")).to_have_value("facts")
    assert "facts" in {
        feature.mode for feature in gateway.store.compactions.all_settings().features.values()
    }


def test_the_extent_of_compaction_is_set_and_a_step_back_is_resumed(
    admin: BrowserContext, gateway: DemoGateway
) -> None:
    page = admin.new_page()
    page.goto("/admin/layouts")
    page.locator("tbody th a").first.click()
    page.locator("select[name=compaction]").select_option("facts")
    page.get_by_label("Last turns unmodified").fill("5")
    page.get_by_label("Tokens to come down to").fill("9000")
    page.get_by_role("button", name="Set compaction").click()
    section = page.locator("section").filter(has_text="Set compaction")
    expect(section).to_contain_text("the last 5 turns stay unmodified")

    features = gateway.store.compactions.all_settings().features
    (place,) = (place for place, feature in features.items() if feature.keep_turns == 5)
    gateway.store.compactions.step_back(place, CompactionMode.TRIM, "lost a fact", 1.0)
    page.reload()
    expect(section).to_contain_text("Stepped back: lost a fact")
    page.get_by_role("button", name="Resume compaction").click()
    expect(section).not_to_contain_text("Stepped back")
    page.get_by_label("Last turns unmodified").fill("")
    page.get_by_label("Tokens to come down to").fill("")
    page.get_by_role("button", name="Set compaction").click()
    expect(section).not_to_contain_text("stay unmodified")


def test_an_objective_is_pinned_and_released(admin: BrowserContext) -> None:
    page = admin.new_page()
    page.goto("/admin/objectives")
    card = page.locator("article.card").first
    card.locator("summary", has_text="Pin").click()
    card.get_by_label("Level").select_option("1")
    card.get_by_label("For").fill("30m")
    card.get_by_label("Why").fill("a test in a browser")
    card.get_by_role("button", name="Preview").click()
    page.locator("form[action$='/objectives/pin'] button").click()
    expect(card).to_contain_text("a test in a browser, until")

    card.get_by_role("button", name="Release").click()
    expect(card).not_to_contain_text("a test in a browser, until")
    page.goto("/admin/audit?who=admin")
    for action in ("pin objective", "release objective"):
        assert page.locator("#changes tbody tr").filter(has_text=action).count()


def test_the_files_are_read_again(admin: BrowserContext) -> None:
    page = admin.new_page()
    page.goto("/admin/settings")
    page.get_by_role("button", name="Reload files").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")


def test_a_mistake_in_the_address_is_told_and_leads_back(admin: BrowserContext) -> None:
    page = admin.new_page()
    page.goto("/admin/costs?tz=Mars/Olympus")

    expect(page.get_by_role("alert")).to_contain_text("there is no such time zone")
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_report_is_downloaded(admin: BrowserContext) -> None:
    page = admin.new_page()
    page.goto("/admin/reports?by=team,feature")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()

    assert download.value.suggested_filename.endswith(".csv")
    assert "acme-support" in download.value.path().read_text()
