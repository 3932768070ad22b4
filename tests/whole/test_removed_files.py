"""Files of the gateway that are removed while it runs: by a cleaner, or by a mount over them."""

import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from proxy.store.store import Store
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.plain_http import PLAIN
from tests.fakes.serve_process import ServeProcess, serve_process

CALLS = 100
#: Text that begins what an operator is told of a stop that leaves receipts to the next start.
STAYS = "Receipts stay in the journal"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[ServeProcess]:
    """A running gateway that has answered some calls; its database lies in another folder."""
    (tmp_path / "ledger").mkdir()
    database = f"sqlite:///{tmp_path / 'ledger' / 'thriftgate.db'}"
    with (
        running_in_thread(lambda: running_simulator(tmp_path)) as (_, catalog),
        serve_process(tmp_path, catalog, database) as running,
    ):
        running.start()
        make_calls(running, 5)
        yield running


def make_calls(gateway: ServeProcess, calls: int = CALLS) -> None:
    """Make calls, ten at once, all of which are answered."""
    body = {"model": "gpt-lab", "messages": [{"role": "user", "content": "hi"}]}
    url, headers = f"{gateway.url}/v1/chat/completions", {"authorization": f"Bearer {gateway.key}"}
    with (
        httpx.Client(trust_env=False, timeout=30, headers=headers, verify=PLAIN) as client,
        ThreadPoolExecutor(10) as pool,
    ):
        answers = pool.map(lambda _: client.post(url, json=body), range(calls))
        assert {answer.status_code for answer in answers} == {200}


def wait_until(is_so: Callable[[], object]) -> None:
    """Wait until a condition holds, but not for ever."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def count_in_ledger(gateway: ServeProcess) -> int:
    """Calls in the ledger, once a process that starts has put there what lies in the journal."""
    store = Store.open(gateway.database_url, gateway.folder / "journal")
    try:
        store.drain.flush(20)
        return store.ledger.count_calls()
    finally:
        store.close(5)


def remove_segments(folder: Path) -> None:
    for segment in folder.iterdir():
        segment.unlink()


def move_folder_away(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()


def truncate_segments(folder: Path) -> None:
    for segment in folder.iterdir():
        segment.write_bytes(b"")


@pytest.mark.parametrize(
    "remove", [remove_segments, shutil.rmtree, move_folder_away, truncate_segments]
)
def test_no_receipt_is_lost_after_the_journal_was_removed_and_readyz_notes_it(
    gateway: ServeProcess, remove: Callable[[Path], object]
) -> None:
    remove(gateway.folder / "journal")
    make_calls(gateway)
    wait_until(lambda: gateway.probe("/readyz")[1].get("notes"))
    status, ready = gateway.probe("/readyz")
    code = gateway.stop()

    assert status == 200
    assert any("journal" in note and "removed" in note for note in ready["notes"])
    assert code == 0
    assert STAYS not in gateway.log()
    assert count_in_ledger(gateway) == CALLS + 5


def test_no_receipt_is_lost_where_a_file_system_is_mounted_over_the_journal(
    gateway: ServeProcess,
) -> None:
    folder = gateway.folder / "journal"
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)  # noqa: S603 - our own command
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    try:
        make_calls(gateway)
        assert gateway.stop() == 0
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607 - the same

    assert count_in_ledger(gateway) == CALLS + 5


def test_no_receipt_is_lost_where_the_journals_folder_cannot_be_made_again(
    gateway: ServeProcess,
) -> None:
    folder = gateway.folder / "journal"
    shutil.rmtree(folder)
    folder.touch()
    make_calls(gateway)
    status, ready = gateway.probe("/readyz")
    code = gateway.stop()
    folder.unlink()

    assert status == 503
    assert any("journal" in trouble for trouble in ready["troubles"])
    assert code == 0
    assert STAYS not in gateway.log()
    assert count_in_ledger(gateway) == CALLS + 5


def test_no_receipt_is_lost_after_the_sqlite_database_was_removed_and_readyz_notes_it(
    gateway: ServeProcess, tmp_path: Path
) -> None:
    remove_segments(tmp_path / "ledger")
    make_calls(gateway)
    wait_until(lambda: gateway.probe("/readyz")[1].get("notes"))
    status, ready = gateway.probe("/readyz")
    there = list((tmp_path / "ledger").iterdir())
    code = gateway.stop()

    assert status == 200
    assert any("database's file" in note and "removed" in note for note in ready["notes"])
    assert there == []
    assert code == 0
    assert STAYS in gateway.log()
    assert count_in_ledger(gateway) >= CALLS


def test_no_receipt_is_lost_after_a_copy_of_the_database_took_its_place(
    gateway: ServeProcess, tmp_path: Path
) -> None:
    file, backup = tmp_path / "ledger" / "thriftgate.db", tmp_path / "backup.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("VACUUM INTO ?", [str(backup)])
    remove_segments(tmp_path / "ledger")
    make_calls(gateway)
    wait_until(lambda: gateway.probe("/readyz")[1].get("notes"))
    backup.rename(file)
    wait_until(lambda: not gateway.probe("/readyz")[1].get("notes"))

    assert gateway.stop() == 0
    assert STAYS not in gateway.log()
    assert count_in_ledger(gateway) >= CALLS
