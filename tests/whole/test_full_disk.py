"""A full disk: receipts go to the reserve, then to the database, and calls are refused in time."""

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from proxy.store.store import Store
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.plain_http import PLAIN
from tests.fakes.serve_process import ServeProcess, serve_process

CALLS = 300


class SmallDisk:
    """A file system of 6 MiB, on which a file can take all room that is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def clear(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)  # noqa: S603 - our own command
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small file system can be mounted here: {error}")
    yield SmallDisk(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607 - the same


@pytest.fixture
def gateway(
    tmp_path: Path, disk: SmallDisk, request: pytest.FixtureRequest
) -> Iterator[ServeProcess]:
    """A gateway whose journal is on the small disk, and its database where the test says."""
    with ExitStack() as stack:
        _, catalog = stack.enter_context(running_in_thread(lambda: running_simulator(tmp_path)))
        there = {"small": disk.folder, "large": tmp_path}[request.param]
        running = stack.enter_context(
            serve_process(tmp_path, catalog, f"sqlite:///{there / 'only.db'}")
        )
        (disk.folder / "journal").mkdir()
        for segment in (running.folder / "journal").iterdir():
            segment.unlink()
        (running.folder / "journal").rmdir()
        (running.folder / "journal").symlink_to(disk.folder / "journal")
        running.start()
        yield running


def statuses(gateway: ServeProcess, calls: int = CALLS) -> Counter[int]:
    """Number of of so many calls, twenty at once, had which status."""
    body = {"model": "gpt-lab", "messages": [{"role": "user", "content": "hi"}]}
    headers = {"authorization": f"Bearer {gateway.key}"}
    with (
        httpx.Client(trust_env=False, timeout=30, headers=headers, verify=PLAIN) as client,
        ThreadPoolExecutor(20) as pool,
    ):
        return Counter(
            pool.map(
                lambda _: client.post(f"{gateway.url}/v1/chat/completions", json=body).status_code,
                range(calls),
            )
        )


def in_ledger(gateway: ServeProcess, atleast: int = 0) -> int:
    """Calls in the ledger, once there are so many or none was added for long."""
    store = Store.open(gateway.database_url, gateway.folder / "elsewhere")
    try:
        until = time.monotonic() + 20
        while store.ledger.count_calls() < atleast and time.monotonic() < until:
            time.sleep(0.05)
        return store.ledger.count_calls()
    finally:
        store.close(5)


def in_log(gateway: ServeProcess) -> int:
    """Receipts in the log."""
    text = (gateway.folder / "serve.log").read_text()
    return len(set(re.findall(r'"call_id":"(call_\w+)"', text)))


def import_receipts(gateway: ServeProcess) -> str:
    """Return what ``thriftgate receipts import`` says of the gateway's log."""
    command = [sys.executable, "-c", "from proxy.cli.main import main; main()"]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "receipts", "import", str(gateway.folder / "serve.log")],
        env=gateway.environment(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    return done.stdout.decode()


@pytest.mark.parametrize("gateway", ["large"], indirect=True)
def test_with_the_journals_disk_full_no_call_is_refused_while_the_database_lives(gateway, disk):
    disk.fill()

    assert statuses(gateway, 3 * CALLS) == {200: 3 * CALLS}
    assert in_ledger(gateway, 3 * CALLS) == 3 * CALLS
    assert gateway.stop() == 0
    assert in_log(gateway) == 0


@pytest.mark.parametrize("gateway", ["small"], indirect=True)
def test_receipts_that_a_full_disk_and_a_full_database_lose_are_logged_whole_and_the_exit_is_1(
    gateway, disk
):
    disk.fill()
    counts = statuses(gateway, 3 * CALLS)
    code = gateway.stop()
    disk.clear()
    logged, lines = in_log(gateway), gateway.log().splitlines()[-1]
    gateway.start()
    in_database = in_ledger(gateway, counts[200] - logged)
    assert gateway.stop() == 0
    first, second = import_receipts(gateway), import_receipts(gateway)

    assert set(counts) == {200, 503}
    assert counts[200] >= CALLS
    assert in_database + logged == counts[200]
    assert logged > 0
    assert code == 1
    assert f"{logged} receipt" in lines
    assert f"{logged} booked, 0 already in the ledger, 0 refused" in first
    assert f"0 booked, {logged} already in the ledger, 0 refused" in second
    assert in_ledger(gateway) == counts[200]
