# ruff: noqa: T201 - a script prints
"""Pictures of every page of a running gateway, and one sheet a page with those of before and now.

Usage: python -m tests.bench.dashboard_pictures take LINK FOLDER/WHEN/STORE
       python -m tests.bench.dashboard_pictures sheets FOLDER OUT

LINK signs in once: ``thriftgate demo``, ``serve`` and ``admin link`` print one. A demo of 1,300
calls has an alert. WHEN is ``before`` or ``now``; STORE is ``empty``, ``demo`` or ``ten-
million``. Pages are those that the gateway's own menu leads to, and of each kind of page about
one thing the first that these link to.
"""

import argparse
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from dashboards.pages import HOME
from tests.bench.dashboard_pages import IS_DRAWN, chromium

#: The windows of pictures, widest first.
SIZES: Final = ((1440, 900), (1280, 720), (390, 844))
SCHEMES: Final[tuple[Literal["light"], Literal["dark"]]] = ("light", "dark")
STORES: Final = {"demo": "demo", "ten-million": "10 M calls", "empty": "empty"}
#: Pages about one thing, by what their path is below the home of pages.
_DETAILS: Final = {
    "call": re.compile(r"/calls/[^/?#]+$"),
    "miss": re.compile(r"/cache/[^/?#]+$"),
    "feature": re.compile(r"/layouts/[^/?#]+/[^?#]+$"),
    "alert": re.compile(r"/alerts/[^/?#]+$"),
}
#: Pages without an entry in the menu and without a link to one thing.
_MORE: Final = {
    "account": f"{HOME}/account",
    "own-usage": "/me",
    "sign-in": f"{HOME}/sign-in",
    "report-print": f"{HOME}/reports/print",
}
_LINKS: Final = "[...document.querySelectorAll('a[href]')].map((link) => link.pathname)"
_MENU: Final = "[...document.querySelectorAll('nav a[href]')].map((link) => link.pathname)"
_DRAWING_TIMEOUT_MS: Final = 4_000
_SETTLE_MS: Final = 150

_GAP: Final = 10
_LINE: Final = 18
_LARGE_WIDTH: Final = 640
_SMALL: Final = 0.2
#: A WebP of this quality is half as large as a PNG of 48 colours, and keeps those of charts.
_QUALITY: Final = 40
_EFFORT: Final = 6
_BACK, _INK, _FRAME = "#ffffff", "#222222", "#bbbbbb"


class Shot(NamedTuple):
    """A picture to be: its window, and the colours that its person prefers."""

    width: int
    height: int
    scheme: Literal["light", "dark"]

    def file(self, folder: Path, page: str) -> Path:
        """The file of its picture of a page."""
        return folder / f"{page}-{self.width}-{self.scheme}.png"


SHOTS: Final = tuple(Shot(*size, scheme) for scheme in SCHEMES for size in SIZES)


def pages(page: Page) -> dict[str, str]:
    """Paths of all pages, by their names, as the pages' own links lead to them."""
    page.goto(HOME)
    menu = [path for path in page.evaluate(_MENU) if path.startswith(HOME)]
    paths = {path.removeprefix(HOME).strip("/") or "overview": path for path in menu}
    details: dict[str, str] = {}
    for path in dict.fromkeys(menu):
        page.goto(path)
        for link in page.evaluate(_LINKS):
            for name, form in _DETAILS.items():
                if form.fullmatch(link.removeprefix(HOME)):
                    details.setdefault(name, link)
    return paths | details | _MORE


def sign_in(browser: Browser, link: str) -> BrowserContext:
    """A browser window of who signed in by a link."""
    parts = urlsplit(link)
    context = browser.new_context(base_url=f"{parts.scheme}://{parts.netloc}")
    page = context.new_page()
    page.goto(link)
    page.locator("main form button").first.click()
    page.wait_for_url(lambda address: "sign-in" not in address)
    return context


def take(link: str, folder: Path) -> None:
    """Take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        signed_in = sign_in(browser, link)
        paths = pages(signed_in.pages[0])
        base = link.split(HOME, maxsplit=1)[0]
        for shot in SHOTS:
            context = browser.new_context(
                base_url=base,
                storage_state=signed_in.storage_state(),
                viewport={"width": shot.width, "height": shot.height},
                color_scheme=shot.scheme,
            )
            page = context.new_page()
            for name, path in paths.items():
                answer = page.goto(path)
                if answer is not None and answer.ok:
                    wait_until_drawn(page)
                    page.screenshot(path=shot.file(folder, name.replace("/", "-")))
            context.close()
        browser.close()
    print(f"{len(paths)} pages, {len(SHOTS) * len(paths)} pictures in {folder}")


def wait_until_drawn(page: Page) -> None:
    """Wait for the charts on the screen, some seconds at most."""
    with suppress(PlaywrightTimeout):
        page.wait_for_function(IS_DRAWN, timeout=_DRAWING_TIMEOUT_MS)
    page.wait_for_timeout(_SETTLE_MS)


class Sheet:
    """A picture of pictures, which grows row by row."""

    def __init__(self, title: str) -> None:
        widths = sum(round(shot.width * _SMALL) for shot in SHOTS)
        self._width = max(widths + 7 * _GAP, 2 * _LARGE_WIDTH + 3 * _GAP)
        self._canvas = Image.new("RGB", (self._width, 4_000), _BACK)
        self._draw = ImageDraw.Draw(self._canvas)
        self._y = _GAP
        self.write(title, size=20)

    def write(self, text: str, x: int = _GAP, size: int = 13, *, is_last: bool = True) -> None:
        """Write a line at the present height."""
        self._draw.text((x, self._y), text, _INK, ImageFont.load_default(size))
        if is_last:
            self._y += size + 6

    def add_pair(self, files: dict[str, Path], shot: Shot) -> None:
        """Add one picture of before and one of now, side by side and large."""
        size = (_LARGE_WIDTH, shot.height * _LARGE_WIDTH // shot.width)
        columns = [_GAP, 2 * _GAP + _LARGE_WIDTH]
        for x, (when, _) in zip(columns, files.items(), strict=False):
            label = f"{when} · demo, {shot.width} px, {shot.scheme}"
            self.write(label, x, is_last=when == list(files)[-1])
        for x, file in zip(columns, files.values(), strict=False):
            self._paste(file, x, size)
        self._y += size[1] + _GAP

    def add_row(self, label: str, folder: Path, page: str) -> None:
        """Add all pictures of a page in a row, small."""
        self.write(label)
        x = _GAP
        for shot in SHOTS:
            size = round(shot.width * _SMALL), round(shot.height * _SMALL)
            self._paste(shot.file(folder, page), x, size)
            x += size[0] + _GAP
        self._y += round(max(shot.height for shot in SHOTS) * _SMALL) + _GAP

    def _paste(self, file: Path, x: int, size: tuple[int, int]) -> None:
        if file.exists():
            picture = Image.open(file).convert("RGB").resize(size, Image.Resampling.LANCZOS)
            self._canvas.paste(picture, (x, self._y))
            width, height = size
            self._draw.rectangle((x - 1, self._y - 1, x + width, self._y + height), None, _FRAME)

    def save(self, file: Path) -> int:
        """Save it as a WebP; the size of the file in bytes."""
        cropped = self._canvas.crop((0, 0, self._width, self._y))
        cropped.save(file, quality=_QUALITY, method=_EFFORT)
        return file.stat().st_size


def moments(folder: Path, page: str) -> Iterator[tuple[str, str, Path]]:
    """The folders with pictures of a page: when, which store, and where."""
    for store in STORES:
        for when in ("before", "now"):
            pictures = folder / when / store
            if SHOTS[0].file(pictures, page).exists():
                yield when, store, pictures


def make_sheets(folder: Path, out: Path) -> None:
    """Make a sheet for each page that has a picture of now."""
    out.mkdir(parents=True, exist_ok=True)
    suffix = f"-{SHOTS[0].width}-{SHOTS[0].scheme}.png"
    files = folder.glob(f"now/*/*{suffix}")
    total = 0
    for page in sorted({file.name.removesuffix(suffix) for file in files}):
        rows = list(moments(folder, page))
        sheet = Sheet(page)
        large = SHOTS[1]
        sheet.add_pair(
            {when: large.file(where, page) for when, store, where in rows if store == "demo"}, large
        )
        for when, store, where in rows:
            sheet.add_row(f"{when} · {STORES[store]}", where, page)
        size = sheet.save(out / f"{page}.webp")
        total += size
        print(f"{page:<20} {size / 1_000:>6.0f} kB")
    print(f"{'all':<20} {total / 1_000:>6.0f} kB")


def main() -> None:
    """Take pictures, or put them together."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    taking = commands.add_parser("take")
    taking.add_argument("link")
    taking.add_argument("folder", type=Path)
    sheets = commands.add_parser("sheets")
    sheets.add_argument("folder", type=Path)
    sheets.add_argument("out", type=Path)
    options = parser.parse_args()
    if options.command == "take":
        take(options.link, options.folder)
    else:
        make_sheets(options.folder, options.out)


if __name__ == "__main__":
    main()
