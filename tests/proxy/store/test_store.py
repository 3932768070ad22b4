import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Engine, delete

from compaction.policy import CompactionMode as Compaction
from proxy.errors import Unready
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.records.receipt import Receipt
from proxy.store.errors import StoreError
from proxy.store.journal.segments import list_segments
from proxy.store.sql import schema
from proxy.store.sql.access.known_keys import KnownKeys
from proxy.store.sql.database import open_database, revision, write_transaction
from proxy.store.store import Store, check_database
from tests.fakes.databases import migrated_sqlite
from tests.fakes.ledger import ledger_of, rollups_of
from tests.fakes.offline import offline_store
from tests.fakes.receipts import a_receipt, rolled_up

ROOT = Path(__file__).resolve().parents[3]

APPEND_UNTIL_KILLED = """
import itertools, os, sys
from pathlib import Path
from proxy.store.sql.ids import call_ids
from proxy.store.journal.segments import JournalLimits
from proxy.store.store import Store
from tests.fakes.offline import offline_store
from tests.fakes.receipts import START, a_receipt

call_id = call_ids()
store = Store.open(sys.argv[1], Path(sys.argv[2]))
store.journal._bounds = JournalLimits(segment=200_000, unsynced=0.005)
for n in itertools.count():
    receipt = a_receipt(n % 500, call_id=call_id(START + n))
    store.keep(receipt)
    os.write(1, receipt.call_id.encode() + b"\\n")
"""


def test_kill_9_at_full_speed_loses_no_delivered_receipt_and_doubles_none(
    url: str, engine: Engine, tmp_path: Path
) -> None:
    """Each round's child appends, rotates and drains, and is killed wherever it happens to be."""
    folder = tmp_path / "journal"
    delivered: list[str] = []
    for seconds in (0.3, 0.15):
        delivered += _run_and_kill(url, folder, seconds)
    left_behind = len(list_segments(folder))
    store = Store.open(url, folder)
    flushed = store.drain.flush(60)
    lacks = store.ledger.missing_calls(delivered)
    ledger = ledger_of(engine)
    store.close(10)

    assert left_behind >= 1
    assert flushed
    assert len(delivered) == len(set(delivered)) > 1000
    assert lacks == []
    assert rollups_of(engine) == rolled_up(ledger)
    assert len(ledger) <= len(delivered) + 2  # each child may die between keeping and telling
    assert list_segments(folder) == []


def _run_and_kill(url: str, folder: Path, seconds: float) -> list[str]:
    command = [sys.executable, "-c", APPEND_UNTIL_KILLED, url, str(folder)]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)  # noqa: S603 - our own
    assert child.stdout is not None
    with child.stdout as pipe:
        first = pipe.readline()
        timer = threading.Timer(seconds, os.kill, (child.pid, signal.SIGKILL))
        timer.start()
        rest = pipe.read()
    assert child.wait(10) == -signal.SIGKILL
    return [line.decode() for line in (first + rest).split(b"\n")[:-1]]


def test_a_receipt_kept_is_found_by_its_team_at_once_and_in_the_reports_soon(
    empty_url: str, tmp_path: Path
) -> None:
    store = Store.open(empty_url, tmp_path / "journal")
    receipt = a_receipt(3)
    store.keep(receipt)
    secret = asyncio.run(_ask_for(store))
    flushed = store.drain.flush(10)
    count = store.ledger.count_calls()

    assert secret == [receipt]
    assert flushed
    assert count == 1
    assert store.trouble() == []
    assert store.close(10)


async def _ask_for(store: Store) -> list[Receipt]:
    receipt = a_receipt(3)
    return await store.ask(store.ledger.call_receipts, receipt.call_id, team=receipt.team)


def test_the_secret_is_made_once(empty_url: str, tmp_path: Path) -> None:
    first = Store.open(empty_url, tmp_path / "a")
    second = Store.open(empty_url, tmp_path / "b")
    secrets = {first.secret, second.secret}
    first.close(10)
    second.close(10)

    assert [len(secret) for secret in secrets] == [32]


def test_a_store_that_cannot_be_opened_leaves_no_thread_and_no_journal_behind(
    engine: Engine, url: str, tmp_path: Path
) -> None:
    with write_transaction(engine) as connection:
        connection.execute(delete(schema.meta).where(schema.meta.c.name == "compaction changes"))
    before = threading.active_count()

    with pytest.raises(StoreError, match="No row was found"):
        Store.open(url, tmp_path / "journal")
    assert threading.active_count() == before
    assert [path.stat().st_size for path in list_segments(tmp_path / "journal")] in ([], [0])


def test_a_key_revoked_by_one_process_closes_in_another_within_three_seconds(
    tmp_path: Path,
) -> None:
    url = migrated_sqlite(tmp_path / "thriftgate.db")
    admin = Store.open(url, tmp_path / "a")
    gateway = Store.open(url, tmp_path / "b")
    team = admin.teams.create("support", now=1.0)
    key, secret = admin.teams.create_key(team.id, "", now=1.0)
    looked = asyncio.run(gateway.keyring.fetch(secret))
    revoked_at = time.monotonic()
    admin.teams.revoke(key.id, now=2.0)
    cached_key = gateway.keyring.find(secret)
    while cached_key is not None and not cached_key.revoked and time.monotonic() < revoked_at + 9:
        time.sleep(0.01)
        cached_key = gateway.keyring.find(secret)
    took = time.monotonic() - revoked_at
    admin.close(10)
    gateway.close(10)

    assert looked is not None
    assert not looked.revoked
    assert cached_key is not None
    assert cached_key.revoked
    assert took < 3


def test_trouble_names_every_part_that_has_some(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    store.close(10)
    with caplog.at_level(logging.CRITICAL):
        store.keep(a_receipt(1))

    assert len(store.trouble()) == 2
    assert "journal" in store.trouble()[0]
    assert "drain" in store.trouble()[1]


def test_an_offline_store_knows_its_keys_and_secret_and_plans_and_compacts_nothing(
    tmp_path: Path,
) -> None:
    store, key = offline_store(tmp_path)
    cached = store.keyring.find(key)
    mode = store.board.current.of(LayoutScope("team", "feature")).mode
    compaction = store.compaction_settings.current.of("team", "feature").effective_mode(
        Compaction.FACTS
    )
    troubles = store.trouble()
    store.close(0)

    assert cached is not None
    assert (len(store.secret), store.is_offline, troubles) == (32, True, [])
    assert (mode, compaction) == (PlanningMode.OFF, Compaction.OFF)


def test_an_offline_store_s_database_is_away_to_whoever_asks_it(tmp_path: Path) -> None:
    store, _ = offline_store(tmp_path)
    with pytest.raises(StoreError, match="not been reached since the gateway started"):
        store.teams.all()
    with pytest.raises(Unready):
        asyncio.run(store.keyring.fetch("tg-" + "x" * 40))
    store.close(0)


def test_receipts_kept_offline_are_in_the_database_once_the_store_is_online(
    tmp_path: Path,
) -> None:
    store, _ = offline_store(tmp_path)
    store.keep(a_receipt(3))
    flushed = store.drain.flush(0.1)
    is_told = store.drain.trouble is not None
    waiting = asyncio.run(_go_online(store))
    arrived = store.drain.flush(30)

    assert (flushed, is_told, waiting, arrived) == (False, True, True, True)
    assert store.ledger.count_calls() == 1
    assert (store.is_offline, store.trouble()) == (False, [])
    assert store.close(10)


async def _go_online(store: Store) -> bool:
    """True if somebody had to wait for the database; it is there afterwards."""
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(store.wait_until_online())
        await asyncio.sleep(0)
        had_to_wait = not waiting.done()
        store.go_online()
    await store.wait_until_online()
    return had_to_wait


def test_a_store_that_is_online_learns_what_holds(tmp_path: Path) -> None:
    store, _ = offline_store(tmp_path)
    store.go_online()
    store.go_online()
    for part in (store.keyring, store.board, store.compaction_settings):
        part.refresh()
    mode = store.board.current.of(LayoutScope("team", "feature")).mode
    unlisted = store.compaction_settings.current.of("team", "feature").effective_mode(
        Compaction.FACTS
    )
    is_current = store.keyring.is_current
    store.close(10)

    assert (mode, unlisted, is_current) == (PlanningMode.AUTO, Compaction.FACTS, True)


def test_a_store_that_never_was_offline_makes_nobody_wait(tmp_path: Path) -> None:
    store = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    asyncio.run(asyncio.wait_for(store.wait_until_online(), 30))
    store.go_online()
    store.close(10)

    assert not store.is_offline


def test_a_database_is_checked_to_be_the_installation_whose_keys_were_served(
    url: str, tmp_path: Path
) -> None:
    store = Store.open(url, tmp_path / "journal")
    store.close(10)

    assert check_database(url, store.secret)
    assert not check_database(url, bytes(32))


def test_a_database_without_tables_is_another_installation_and_stays_empty(empty_url: str) -> None:
    is_same = check_database(empty_url, bytes(32))
    engine = open_database(empty_url)
    current = revision(engine)
    engine.dispose()

    assert not is_same
    assert current is None


def test_receipts_are_booked_at_once_and_each_once(
    url: str, engine: Engine, tmp_path: Path
) -> None:
    store = Store.open(url, tmp_path / "journal")
    some = [a_receipt(n) for n in range(4)]
    booked = [store.book(some[:2]), store.book([*some, some[0]]), store.book(some)]
    store.close(10)

    assert booked == [2, 2, 0]
    assert ledger_of(engine) == some
    assert rollups_of(engine) == rolled_up(some)


def test_the_address_of_a_store_holds_no_password(tmp_path: Path) -> None:
    url = "postgresql://ann:secret@127.0.0.1:1/ledger?password=secret&sslpassword=secret"
    known_keys = KnownKeys(
        database="", confirmed_at=1.0, secret=b"s" * 32, teams=0, keys=msgspec.Raw(b"[]")
    )
    store = Store.open_offline(url, tmp_path / "journal", PlanningMode.AUTO, known_keys)

    assert "secret" not in store.address
    assert "127.0.0.1:1/ledger" in store.address
    store.close(0)
