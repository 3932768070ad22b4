# ruff: noqa: T201 - a script prints
"""First byte, drawing time and weight of the pages of a running gateway.

Usage: python -m tests.bench.dashboard_pages --fill FILE
       THRIFTGATE_ADMIN_TOKEN=… python -m tests.bench.dashboard_pages --ask URL [--pid PID]

The first command makes a ledger of ten million calls in rollups, and of so many of the last two
days that the page Now reads as many as it may; a gateway then serves it. The second asks for each
page by turns, after a round that warms up, and draws it in Chromium at 1280 by 720. A page is drawn
when all charts on the screen are. Weights are over the wire, of a first visit and of the next.
Processor time is the least of a page, of the gateway with this process id and of its children.
"""

import argparse
import html
import os
import re
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import httpx
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from dashboards.pages import HOME, NAVIGATION
from proxy.store.store import Store
from slo.alert import Alert, Severity
from tests.bench.dashboard_calls import CALLS, fill

#: Pages beside those of the menu, as they are in the menu.
_MORE: Final = (
    "/now?window=15m",
    "/now?window=6h",
    "/now?window=6h&by=model",
    "/costs?by=feature",
    "/costs?by=feature&across=model",
    "/calls?sort=cost",
    "/calls?q=chatcmpl-400000",
    "/calls?min_duration=999",
    "/calls?error=none_such",
    "/calls?served_by=cache",
    "/reports?by=team,feature",
    "/reports/print?by=team,feature",
    "/layouts/team_7/feature%207",
)
#: Pages about one thing, by the page that links to them.
_DETAILS: Final = {"/calls": "/calls/call_", "/budgets": "/alerts/"}
#: True once all charts on the screen are drawn.
IS_DRAWN: Final = """document.readyState === "complete"
  && [...document.querySelectorAll("figure[data-chart]")].every((figure) =>
    "drawn" in figure.dataset || !figure.querySelector("tbody tr")
    || !figure.getBoundingClientRect().height
    || figure.getBoundingClientRect().top > innerHeight)"""
_DRAWN_AT: Final = f"() => {IS_DRAWN} && performance.now()"
_SIGN_IN: Final = """([path, token]) =>
  fetch(path, {method: "POST", body: new URLSearchParams({token})})"""
_ALERT: Final = partial(
    Alert,
    kind="route",
    subject="lab/model-1",
    severity=Severity.TICKET,
    title="Route lab/model-1 fails",
)
#: Milliseconds to a page's first byte and of processor time, by its path.
Times = dict[str, list[tuple[float, float]]]
_TIMEOUT_S: Final = 30.0
_KIB: Final = 1024
_HOUR_S: Final = 3600


def fill_until_now(file: Path) -> None:
    """Make a ledger whose last call is of the next hour."""
    with tempfile.TemporaryDirectory() as journal:
        store = Store.open(f"sqlite:///{file}", Path(journal))
        end = (int(time.time()) // _HOUR_S + 2) * _HOUR_S  # noqa: TID251 - its own clock
        fill(store._engine, end, 2 * CALLS)
        store.outbox.add([_ALERT(began=end - 3 * _HOUR_S, since=end - 4 * _HOUR_S)], {}, end)
        store.close(1.0)


def chromium(playwright: Playwright) -> Browser:
    """The machine's own Chromium, or the one that CHROMIUM names."""
    program = os.environ.get("CHROMIUM", "/usr/bin/chromium")  # noqa: TID251 - a tool
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


def all_paths(client: httpx.Client) -> list[str]:
    """Paths of all pages, with the first of each kind that is about one thing."""
    paths = [*(page.path for group in NAVIGATION for page in group.entries), *_MORE]
    for page, start in _DETAILS.items():
        link = re.search(f'href="{HOME}({start}[^"?#]+)"', client.get(HOME + page).text)
        paths += [html.unescape(link[1])] if link else []
    return paths


def first_bytes(client: httpx.Client, paths: Sequence[str], rounds: int, pid: int) -> Times:
    """Milliseconds to the first byte of each page, and of processor time."""
    times: Times = {path: [] for path in paths}
    for number in range(rounds + 1):
        for path in paths:
            began, used = time.perf_counter(), processor_ms(pid)
            with client.stream("GET", HOME + path) as answer:
                milliseconds = (time.perf_counter() - began) * 1_000
                answer.raise_for_status()
                answer.read()
            if number:
                times[path].append((milliseconds, processor_ms(pid) - used))
    return times


def processor_ms(pid: int) -> float:
    """Milliseconds that a process and its children used; 0 without a process."""
    tasks = Path(f"/proc/{pid}/task")
    if not pid:
        return 0.0
    used = sum(int(file.read_text().split()[0]) for file in tasks.glob("*/schedstat")) / 1e6
    children = "".join(file.read_text() for file in tasks.glob("*/children"))
    return used + sum(map(processor_ms, map(int, children.split())))


def draw_times(page: Page, paths: Sequence[str], rounds: int) -> dict[str, tuple[float, ...]]:
    """Milliseconds until each page is drawn; KiB of its first and its second visit."""
    network, loaded = page.context.new_cdp_session(page), list[float]()
    network.send("Network.enable")
    network.on("Network.loadingFinished", lambda event: loaded.append(event["encodedDataLength"]))
    drawn: dict[str, tuple[float, ...]] = {}
    for path in paths:
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


def ask(url: str, token: str, rounds: int, pid: int) -> None:
    """Ask, draw, print."""
    with httpx.Client(base_url=url, timeout=_TIMEOUT_S) as client:
        client.post(f"{HOME}/sign-in", data={"token": token})
        times = first_bytes(client, all_paths(client), rounds, pid)
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        page = browser.new_page(base_url=url, viewport={"width": 1280, "height": 720})
        page.goto(f"{HOME}/sign-in")
        page.evaluate(_SIGN_IN, [f"{HOME}/sign-in", token])
        drawn = draw_times(page, [*times], rounds)
        browser.close()
    print(
        f"{'page':<40} {'first byte ms':>16} {'drawn ms':>9} {'CPU ms':>7} {'KiB':>6} {'again':>6}"
    )
    for path, measured in times.items():
        shown, first, again = drawn[path]
        waits, used = zip(*measured, strict=True)
        spread = f"{median(waits):.0f} ({min(waits):.0f}-{max(waits):.0f})"
        name = path.split("%", 1)[0][:40] or "/"
        print(
            f"{name:<40} {spread:>16} {shown:>9.0f} {min(used):>7.0f} {first:>6.0f} {again:>6.0f}"
        )


def main() -> None:
    """Fill or ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fill", type=Path, metavar="FILE")
    parser.add_argument("--ask", metavar="URL")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pid", type=int, default=0)
    options = parser.parse_args()
    if options.fill:
        fill_until_now(options.fill)
    if options.ask:
        token = os.environ["THRIFTGATE_ADMIN_TOKEN"]  # noqa: TID251 - a tool
        ask(options.ask, token, options.rounds, options.pid)


if __name__ == "__main__":
    main()
