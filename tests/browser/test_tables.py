"""Tables and saved views in a real browser: sorted, searched, paged, chosen, and kept."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.fakes.demo_gateway import DemoGateway

pytestmark = pytest.mark.browser


def page_of(window: BrowserContext, *rows: Sequence[str]) -> Page:
    """A page of one table, whose second column has numbers."""
    page, columns = window.new_page(), range(len(rows[0]))
    heads = "".join(f"<th{' class=number' * (place == 1)}>c{place}</th>" for place in columns)
    body = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>" for row in rows)
    html = (
        "<!doctype html><meta charset=utf-8><main><section id=own><h2>Own</h2><div class=scroll>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div></section></main>"
        '<script type="module" src="/admin/static/tables.js"></script>'
    )
    page.route("**/admin/own", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.goto("/admin/own")
    page.get_by_role("button", name="CSV").wait_for()
    return page


def saved_rows(page: Page, folder: Path) -> list[list[str]]:
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    file = folder / "table.csv"
    download.value.save_as(file)
    return [*csv.reader(file.read_text(encoding="utf-8-sig").splitlines())][1:]


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
    page = page_of(admin, ["a", "83"], ["b", "1,043"], ["c", "74"])
    calls = page.get_by_role("columnheader", name="c1")
    texts = page.locator("#own tbody tr > *:nth-child(2)")
    calls.get_by_role("button").click()
    descending = texts.all_inner_texts()
    calls.get_by_role("button").press("Enter")

    assert descending == ["1,043", "83", "74"]
    assert texts.all_inner_texts() == descending[::-1]
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


def test_long_table_is_paged_twenty_rows_at_a_time(admin: BrowserContext) -> None:
    page = page_of(admin, *([f"row {number:02}", "x"] for number in range(45)))
    names = page.locator("#own tbody tr > *:nth-child(1)")
    seen = [(names.first.inner_text(), names.count())]
    for _ in range(2):
        page.get_by_role("button", name="Next rows").click()
        seen.append((names.first.inner_text(), names.count()))
    is_last = page.get_by_role("button", name="Next rows").is_disabled()
    page.get_by_role("columnheader", name="c1").get_by_role("button").click()

    assert seen == [("row 00", 20), ("row 20", 20), ("row 40", 5)]
    assert is_last
    assert names.first.inner_text() == "row 00"


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


def test_names_that_begin_like_negative_numbers_are_no_formulas_in_the_file(
    admin: BrowserContext, tmp_path: Path
) -> None:
    formula = "-1+cmd|' /C calc'!A0"
    shown = page_of(admin, [formula, "\N{MINUS SIGN}$1.20"], ["=1", "-12 %"])
    rows = saved_rows(shown, tmp_path)

    assert rows == [[f"'{formula}", "-$1.20"], ["'=1", "-12 %"]]


def test_changes_are_sorted_as_numbers_with_their_signs(admin: BrowserContext) -> None:
    changes = ["+3 %", "-5 %", "+12 %", "new", "0 %"]
    page = page_of(admin, *(["name", change] for change in changes))
    page.get_by_role("columnheader", name="c1").get_by_role("button").click()

    texts = page.locator("#own tbody tr > *:nth-child(2)").all_inner_texts()
    assert texts == ["+12 %", "+3 %", "0 %", "-5 %", "new"]


def test_column_that_is_hidden_is_hidden_in_rows_that_come_later(admin: BrowserContext) -> None:
    page = page_of(admin, *([f"row {number}", *"bcdefg"] for number in range(30)))
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("c1").uncheck()
    page.get_by_role("button", name="Show all 30").click()
    hidden = page.locator("#own tbody tr > *:nth-child(2)[hidden]").count()
    page.get_by_label("c1").check()

    assert hidden == 30
    assert page.locator("#own tbody [hidden]").count() == 0


def test_columns_that_few_need_are_hidden_until_somebody_chooses_them(
    admin: BrowserContext,
) -> None:
    page = admin.new_page()
    page.goto("/admin/models")
    discount = page.get_by_role("columnheader", name="Discount")
    page.get_by_text("Columns", exact=True).click()
    is_hidden_first = not discount.is_visible()
    page.get_by_role("checkbox", name="Discount").check()

    assert is_hidden_first
    assert discount.is_visible()
