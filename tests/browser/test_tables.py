"""Tables and saved views in a real browser: sorted, searched, paged, chosen, and kept."""

import csv
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser


def costs_by_team(window: BrowserContext) -> Page:
    page = window.new_page()
    page.goto("/admin/costs?by=team")
    page.get_by_role("button", name="CSV").wait_for()
    return page


def column(page: Page, number: int, section: str = "breakdown-title") -> list[str]:
    cells = page.locator(f"section[aria-labelledby={section}] tbody tr > *:nth-child({number})")
    return [text.split("\n")[0] for text in cells.all_inner_texts()]


def test_click_on_a_heading_sorts_by_number_and_a_second_one_turns_it_round(
    admin: BrowserContext,
) -> None:
    page = costs_by_team(admin)
    calls = page.get_by_role("columnheader", name="Calls", exact=True)
    calls.get_by_role("button").click()
    descending = [int(text) for text in column(page, 5)]
    calls.get_by_role("button").press("Enter")

    assert descending == sorted(descending, reverse=True)
    assert [int(text) for text in column(page, 5)] == descending[::-1]
    assert calls.get_attribute("aria-sort") == "ascending"


def test_hidden_column_stays_hidden_and_is_not_in_the_file(
    admin: BrowserContext, tmp_path: Path
) -> None:
    page = costs_by_team(admin)
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Errors").uncheck()
    page.reload()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    file = tmp_path / "table.csv"
    download.value.save_as(file)
    head, *rows = csv.reader(file.read_text(encoding="utf-8-sig").splitlines())

    assert download.value.suggested_filename == "breakdown.csv"
    assert "Calls" in head
    assert "Errors" not in head
    assert [row[1] for row in rows] == column(page, 2)
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Errors").check()


def test_long_table_shows_twenty_rows_and_finds_others_by_their_words(
    admin: BrowserContext, gateway: DemoGateway
) -> None:
    for number in range(30):
        gateway.store.teams.create(f"squad-{number:02}", now=1_790_000_000.0)
    page = admin.new_page()
    page.goto("/admin/teams")
    search = page.get_by_role("searchbox").first
    search.wait_for()
    section = search.locator("xpath=ancestor::section")
    before = section.locator("tbody tr").count()
    search.fill("squad-29")
    after = section.locator("tbody tr").all_inner_texts()
    search.fill("")
    section.get_by_role("button", name="Show all").click()

    assert before == 20
    assert [("squad-29" in text) for text in after] == [True]
    assert section.locator("tbody tr").count() > 30


def test_saved_view_stands_in_the_menu_with_its_filters_until_it_is_removed(
    admin: BrowserContext,
) -> None:
    page = admin.new_page()
    page.goto("/admin/costs?by=model&unit=day")
    page.get_by_text("Save this view").click()
    page.get_by_label("Name of the view").fill("Models <b>daily</b>")
    page.get_by_role("button", name="Save", exact=True).click()
    page.goto("/admin/calls")
    page.get_by_role("link", name="Models <b>daily</b>").click()

    assert page.url.endswith("/admin/costs?by=model&unit=day")
    page.get_by_role("button", name="Remove the view Models").click()
    assert page.get_by_role("link", name="Models <b>daily</b>").count() == 0
