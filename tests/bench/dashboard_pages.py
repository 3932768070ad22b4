# ruff: noqa: T201 - a script prints
"""First byte, drawing time and weight of the pages of a running gateway.

Usage: python -m tests.bench.dashboard_pages --fill FILE
       THRIFTGATE_ADMIN_TOKEN=… python -m tests.bench.dashboard_pages --ask URL [--rounds 3]

The first command makes a ledger of ten million calls in rollups, and of so many of the last two
days that the page Now reads as many as it may; a gateway then serves it. The second asks for each
page by turns, after a round that warms up, and draws it in Chromium at 1280 by 720. A page is drawn
when all charts on the screen are. Weights are over the wire, of a first visit and of the next.
"""

import argparse
import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Final

import httpx
from playwright.sync_api import Browser, Playwright, sync_playwright

from dashboards.pages import HOME, NAVIGATION
from proxy.store.store import Store
from tests.bench.dashboard_calls import CALLS, fill

#: Pages beside those of the menu, as they are in the menu.
_MORE: Final = (
    "/now?window=6h",
    "/costs?by=feature",
    "/calls?min_duration=999",
    "/calls?error=none_such",
    "/calls?served_by=cache",
    "/calls?min_ttft=999",
)
_PATHS: Final = (*(page.path for group in NAVIGATION for page in group.entries), *_MORE)
#: True once all charts on the screen are drawn.
IS_DRAWN: Final = """document.readyState === "complete"
  && [...document.querySelectorAll("figure[data-chart]")].every((figure) =>
    "drawn" in figure.dataset || !figure.querySelector("tbody tr")
    || !figure.getBoundingClientRect().height
    || figure.getBoundingClientRect().top > innerHeight)"""
_DRAWN_AT: Final = f"() => {IS_DRAWN} && performance.now()"
_SIGN_IN: Final = """([path, token]) =>
  fetch(path, {method: "POST", body: new URLSearchParams({token})})"""
_TIMEOUT_S: Final = 30.0
_KIB: Final = 1024
_HOUR_S: Final = 3600


def fill_until_now(file: Path) -> None:
    """Make a ledger whose last call is of the next hour."""
    with tempfile.TemporaryDirectory() as journal:
        store = Store.open(f"sqlite:///{file}", Path(journal))
        fill(store._engine, (int(time.time()) // _HOUR_S + 2) * _HOUR_S, 2 * CALLS)  # noqa: TID251 - its own clock
        store.close(1.0)


def chromium(playwright: Playwright) -> Browser:
    """The machine's own Chromium, or the one that CHROMIUM names."""
    program = os.environ.get("CHROMIUM", "/usr/bin/chromium")  # noqa: TID251 - a tool
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


def first_bytes(url: str, token: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds to the first byte of each page."""
    times = defaultdict[str, list[float]](list)
    with httpx.Client(base_url=url, timeout=_TIMEOUT_S) as client:
        client.post(f"{HOME}/sign-in", data={"token": token})
        for number in range(rounds + 1):
            for path in _PATHS:
                began = time.perf_counter()
                with client.stream("GET", HOME + path) as answer:
                    milliseconds = (time.perf_counter() - began) * 1_000
                    answer.raise_for_status()
                    answer.read()
                if number:
                    times[path].append(milliseconds)
    return times


def draw_times(browser: Browser, url: str, token: str, rounds: int) -> dict[str, tuple[float, ...]]:
    """Milliseconds until each page is drawn; KiB of its first and its second visit."""
    page = browser.new_page(base_url=url, viewport={"width": 1280, "height": 720})
    page.goto(f"{HOME}/sign-in")
    page.evaluate(_SIGN_IN, [f"{HOME}/sign-in", token])
    network, loaded = page.context.new_cdp_session(page), list[float]()
    network.send("Network.enable")
    network.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
    drawn: dict[str, tuple[float, ...]] = {}
    for path in _PATHS:
        network.send("Network.clearBrowserCache")
        visits = []
        for _ in range(rounds + 1):
            loaded.clear()
            page.goto(HOME + path, wait_until="commit")
            milliseconds = page.wait_for_function(_DRAWN_AT).json_value()
            page.wait_for_load_state("networkidle")
            visits.append((milliseconds, sum(loaded) / _KIB))
        times = [milliseconds for milliseconds, _ in visits[1:]]
        drawn[path] = median(times), visits[0][1], visits[1][1]
    return drawn


def ask(url: str, token: str, rounds: int) -> None:
    """Ask, draw, print."""
    times = first_bytes(url, token, rounds)
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        drawn = draw_times(browser, url, token, rounds)
        browser.close()
    print(f"{'page':<26} {'first byte ms':>18} {'drawn ms':>9} {'KiB':>6} {'again':>6}")
    for path, some in times.items():
        shown, first, again = drawn[path]
        spread = f"{median(some):.0f} ({min(some):.0f}-{max(some):.0f})"
        print(f"{path or '/':<26} {spread:>18} {shown:>9.0f} {first:>6.0f} {again:>6.0f}")


def main() -> None:
    """Fill or ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fill", type=Path, metavar="FILE")
    parser.add_argument("--ask", metavar="URL")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.fill:
        fill_until_now(options.fill)
    if options.ask:
        ask(options.ask, os.environ["THRIFTGATE_ADMIN_TOKEN"], options.rounds)  # noqa: TID251 - a tool


if __name__ == "__main__":
    main()
