"""A log of another tool, dropped on the page or chosen without scripts."""

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from tests.fakes.demo_gateway import DemoGateway
from tests.fakes.tool_logs import langfuse, own_form

pytestmark = pytest.mark.browser

SAMPLE = Path("proxy/tools/replay/samples/parcels.jsonl.gz")
#: The process goes behind others; a busy machine lets it wait.
_REPLAY_MS = 150_000
#: Puts a file into an event as a person who drops it does.
_DROP = """([data, name]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const dropped = new DataTransfer();
  dropped.items.add(new File([bytes], name));
  const event = new DragEvent("drop", { dataTransfer: dropped, bubbles: true, cancelable: true });
  document.querySelector("main").dispatchEvent(event);
}"""


def expect_result(page: Page, headline: str) -> None:
    """The first line, what to do, a line for each way, and no fault."""
    expect(page.locator(".headline")).to_contain_text(headline, timeout=_REPLAY_MS)
    expect(page.get_by_role("heading", name="What to do")).to_be_visible()
    expect(page.locator("svg.curves polyline")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_log_that_is_dropped_is_replayed_at_once(
    view: tuple[str, BrowserContext], take_picture: Callable[[Page, str], None]
) -> None:
    name, window = view
    page = window.new_page()
    page.goto("/admin/replay")
    page.evaluate(_DROP, [b64encode(SAMPLE.read_bytes()).decode(), SAMPLE.name])

    expect_result(page, "60 calls cost $0.28; through the gateway $0.0")
    expect(page.get_by_text("thriftgate serve")).to_be_visible()
    take_picture(page, f"replayed-{name}")
    serious = [
        violation
        for violation in Axe().run(page).response["violations"]
        if violation["impact"] in {"serious", "critical"}
    ]
    assert serious == []


def test_a_log_is_chosen_and_replayed_without_javascript(
    admin: BrowserContext, gateway: DemoGateway, tmp_path: Path
) -> None:
    file = tmp_path / "export.json"
    file.write_bytes(langfuse(40))
    browser = admin.browser
    assert browser is not None
    plain = browser.new_context(
        base_url=gateway.url, storage_state=admin.storage_state(), java_script_enabled=False
    )
    page = plain.new_page()
    page.goto("/admin/replay")
    page.get_by_label("Log").set_input_files(file)
    page.get_by_role("button", name="Replay").click()

    expect_result(page, "40 calls cost $")
    expect(page.locator("#result-title")).to_have_text("export.json")
    plain.close()


def test_markup_in_a_log_stays_text(admin: BrowserContext, tmp_path: Path) -> None:
    evil = b"<img src=x onerror=alert(1)>"
    file = tmp_path / "<b>log.jsonl"
    file.write_bytes(own_form(20).replace(b'"desk"', b'"' + evil + b'"'))
    page = admin.new_page()
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.goto("/admin/replay")
    page.get_by_label("Log").set_input_files(file)
    page.get_by_role("button", name="Replay").click()

    expect_result(page, "20 calls cost $")
    expect(page.locator("#result-title")).to_have_text("<b>log.jsonl")
    expect(page.get_by_role("rowheader", name=evil.decode())).to_be_visible()
    assert page.locator("main img").count() == 0
