"""A real Chromium before the demo's gateway; without one these tests skip and say so."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from proxy.store.sql.access.users import FIRST_ADMIN
from tests.fakes.demo_gateway import DemoGateway, demo_gateway

_CALLS = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", help="folder for a picture of each page, to look at")


@pytest.fixture
def take_picture(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Keeps a picture of a page where ``--pictures`` names a folder."""
    folder = request.config.getoption("--pictures", default=None)

    def take(page: Page, name: str) -> None:
        if folder:
            page.screenshot(path=Path(folder) / f"{name}.png")

    return take


@pytest.fixture(scope="session")
def gateway() -> Iterator[DemoGateway]:
    with demo_gateway(_CALLS) as serving:
        yield serving


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("NO PAGE WAS TRIED IN A BROWSER: Chromium is not installed")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def session_state(
    chromium: Browser, gateway: DemoGateway, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Cookies of an administrator who signed in by a one-time link."""
    now = datetime.now(UTC).timestamp()  # noqa: TID251 - a person's own clock
    code = gateway.store.users.create_link(FIRST_ADMIN, now=now)
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{gateway.url}/admin/sign-in?code={code}")
    page.get_by_role("button", name="Sign in by this link").click()
    page.wait_for_url("**/admin**")
    file = tmp_path_factory.mktemp("browser") / "state.json"
    context.storage_state(path=file)
    context.close()
    return file


@dataclass(frozen=True)
class View:
    """A window's size, and the colours that its person prefers."""

    name: str
    viewport: ViewportSize
    color_scheme: Literal["light", "dark"]


DESKTOP, PHONE = ViewportSize(width=1360, height=860), ViewportSize(width=390, height=844)
VIEWS = (
    View("desktop-light", DESKTOP, "light"),
    View("desktop-dark", DESKTOP, "dark"),
    View("phone-light", PHONE, "light"),
    View("phone-dark", PHONE, "dark"),
)


@pytest.fixture(params=VIEWS, ids=lambda page_view: page_view.name)
def view(
    request: pytest.FixtureRequest, chromium: Browser, gateway: DemoGateway, session_state: Path
) -> Iterator[tuple[str, BrowserContext]]:
    """The name of a view, and a browser window of an administrator with it."""
    chosen: View = request.param
    context = chromium.new_context(
        base_url=gateway.url,
        storage_state=session_state,
        viewport=chosen.viewport,
        color_scheme=chosen.color_scheme,
    )
    yield chosen.name, context
    context.close()


@pytest.fixture
def admin(chromium: Browser, gateway: DemoGateway, session_state: Path) -> Iterator[BrowserContext]:
    """A browser window of an administrator."""
    context = chromium.new_context(base_url=gateway.url, storage_state=session_state)
    yield context
    context.close()
