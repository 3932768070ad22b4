"""The page of the fast path: its figures, and a switch that a person presses."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from proxy.records.receipt import ServedBy
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from tests.browser.test_pages import Watch
from tests.fakes.demo_gateway import DemoGateway
from tests.fakes.receipts import a_receipt

pytestmark = pytest.mark.browser
SMALL = "gpt-5.4-mini"
RULES = """
[[answer_cache]]
name = "faq-answers"
feature = "faq"
similar = true

[[small_first]]
name = "faq-small-first"
feature = "faq"
small = "{small}"

[[drafts]]
name = "quick"
feature = "long-answers"
model = "{small}"

[[stream_continuation]]
name = "all"
"""
SAVED = {ServedBy.CACHE: 41_000_000, ServedBy.SMALL: 17_000_000}
SERVED = [(ServedBy.CACHE, 9), (ServedBy.SMALL, 14), (ServedBy.LARGE, 4)]


@pytest.fixture(scope="module")
def fast_path(gateway: DemoGateway) -> Iterator[str]:
    """The demo's gateway with rules and calls of the fast path; the id of their team."""
    team = next(team.id for team in gateway.store.teams.all())
    now = datetime.now(UTC).timestamp()  # noqa: TID251 - the gateway's own clock
    calls = [(name, served) for served, count in SERVED for name in ["faq"] * count]
    calls += [("long-answers", ServedBy.DRAFT)] * 5
    receipts = [
        a_receipt(
            n, call_id=f"{id_floor(now - 600)[:-4]}{n:04x}", started=now - 600, team=team,
            feature=feature, served_by=served, final=served is not ServedBy.DRAFT,
            fast_path_nanos=SAVED.get(served, -3_000_000),
        )
        for n, (feature, served) in enumerate(calls)
    ]  # fmt: skip
    assert inserter(gateway.store._engine)(receipts) is None
    policies = gateway.folder / "policies.toml"
    before = policies.read_text(encoding="utf8")
    policies.write_text(before + RULES.format(small=SMALL), encoding="utf8")
    yield team
    policies.write_text(before, encoding="utf8")


def open_page(window: BrowserContext, gateway: DemoGateway) -> tuple[Page, Watch]:
    """The page, once the gateway has read its rules."""
    page = window.new_page()
    watch = Watch(page, gateway.url)
    page.goto("/admin/fast-path")
    for _ in range(40):
        if page.get_by_text("faq-answers").count():
            break
        page.wait_for_timeout(250)
        page.reload()
    return page, watch


@pytest.mark.usefixtures("fast_path")
def test_the_page_shows_rules_figures_and_switches_without_a_fault(
    view: tuple[str, BrowserContext],
    gateway: DemoGateway,
    take_picture: Callable[[Page, str], None],
) -> None:
    name, window = view
    page, watch = open_page(window, gateway)

    row = page.locator("#features tbody tr, table tbody tr").filter(has_text="faq-answers")
    expect(row).to_contain_text("similar questions too")
    expect(row).to_contain_text("nothing is proved yet, 1.00 % allowed")
    expect(row.locator("td[data-name='From cache']")).to_have_text("9")
    expect(row.get_by_role("button", name="Disable small model first for faq")).to_be_visible()
    assert watch.problems == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    violations = Axe().run(page).response["violations"]
    assert [fault["id"] for fault in violations] == []
    take_picture(page, f"fast-path-figures-{name}")
    row.scroll_into_view_if_needed()
    take_picture(page, f"fast-path-switches-{name}")


def test_a_pressed_switch_turns_the_part_off_and_the_next_press_on_again(
    admin: BrowserContext, gateway: DemoGateway, fast_path: str
) -> None:
    page, watch = open_page(admin, gateway)

    page.get_by_role("button", name=re.compile("^Disable answers given before for faq")).click()

    row = page.locator("tr").filter(has_text="faq-answers")
    part = row.locator("li").filter(has_text="Answers given before")
    expect(part.locator(".state")).to_have_text("off")
    assert [(switch.feature, switch.part) for switch in gateway.store.fast_path_switches.all()] == [
        ("faq", "answer_cache")
    ]

    page.get_by_role("button", name=re.compile("^Enable answers given before for faq")).click()

    expect(part.locator(".state")).to_have_count(0)
    assert gateway.store.fast_path_switches.all() == []
    audited = [entry.action for entry in gateway.store.audit.entries(9) if entry.team == fast_path]
    assert set(audited) >= {"disable answer_cache", "enable answer_cache"}
    assert watch.problems == []
