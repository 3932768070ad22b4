"""The process that reads for pages beside a running gateway: found, killed, and gone in the end."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.plain_http import PLAIN
from tests.fakes.serve_process import ServeProcess, serve_process

TOKEN = "an-admin-token-of-24-chars"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[ServeProcess]:
    """A gateway with a token for its pages."""
    with (
        running_in_thread(lambda: running_simulator(tmp_path)) as (_, catalog),
        serve_process(tmp_path, catalog) as running,
    ):
        running.start(THRIFTGATE_ADMIN_TOKEN=TOKEN)
        yield running


@pytest.fixture
def browser(gateway: ServeProcess) -> Iterator[httpx.Client]:
    """One that is signed in."""
    with httpx.Client(base_url=gateway.url, follow_redirects=True, verify=PLAIN) as client:
        assert client.post("/admin/sign-in", data={"token": TOKEN}).status_code == 200
        yield client


def readers(gateway: ServeProcess) -> list[psutil.Process]:
    """The gateway's child processes that have the lowest priority."""
    return [process for process in psutil.Process(gateway.pid).children() if process.nice() == 19]


def readers_once_started(gateway: ServeProcess) -> list[psutil.Process]:
    """The same, at least one: it lowers its priority once it has started."""
    for _ in range(600):
        if processes := readers(gateway):
            return processes
        time.sleep(0.1)
    raise TimeoutError


def is_answered(browser: httpx.Client, path: str) -> bool:
    """True once a path is answered, within some tries."""
    return any(browser.get(path).status_code == 200 for _ in range(20))


def test_pages_are_read_by_a_process_of_the_lowest_priority_which_is_replaced_and_ends(
    gateway: ServeProcess, browser: httpx.Client
) -> None:
    for path in ("costs", "savings", "cache", "latency", "calls"):
        assert browser.get(f"/api/v1/{path}").status_code == 200
    first = readers_once_started(gateway)
    first[0].kill()
    # On a busy machine the next one may start too late for a page, which then is not available.
    while_replaced = {browser.get("/api/v1/costs").status_code for _ in range(2)}
    second = readers_once_started(gateway)
    once_replaced = is_answered(browser, "/api/v1/costs")
    status = gateway.stop()

    assert while_replaced <= {200, 503}
    assert (len(first), once_replaced, len(second), status) == (1, True, 1, 0)
    assert first != second
    assert not second[0].is_running()
