import errno
import logging
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy import Engine, make_url

from proxy.records.receipt import Receipt
from proxy.store.errors import StoreError
from proxy.store.journal.journal import Journal
from proxy.store.journal.lines import encode, frame
from proxy.store.journal.segments import Disk, JournalLimits, list_segments
from proxy.store.sql.database import migrate, open_database, write_transaction
from proxy.store.sql.ledger.inserts import Insert, inserter
from proxy.store.sql.ledger.journal_shipper import JournalShipper
from tests.fakes.ledger import ledger_of, rollups_of
from tests.fakes.receipts import a_receipt, rolled_up
from tests.fakes.wire_cut import WireCut

RECEIPTS = [a_receipt(n) for n in range(40)]
LINES = [encode(receipt) for receipt in RECEIPTS]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal", bounds=JournalLimits(segment=4000))
    yield journal
    journal.close()


@pytest.fixture
def drain(journal: Journal, engine: Engine) -> Iterator[JournalShipper]:
    drain = JournalShipper(journal, inserter(engine), batch=7, pause=0.01)
    yield drain
    drain.close(10)


def append(journal: Journal, lines: Sequence[bytes]) -> None:
    for line in lines:
        journal.append(line)
        journal.sync()


def orphan(journal: Journal, content: bytes, name: str = "999-dead-000001") -> Path:
    """A segment as a process that died leaves it."""
    path = journal.folder / f"{name}.segment"
    path.write_bytes(content)
    return path


def test_receipts_of_all_segments_reach_the_ledger_and_only_the_open_one_stays(
    journal: Journal, drain: JournalShipper, engine: Engine
) -> None:
    append(journal, LINES)
    segments = len(list_segments(journal.folder))
    lag = drain.lag_bytes
    drained = drain.ship_all()

    assert segments > 4
    assert lag > sum(map(len, LINES))
    assert drained
    assert ledger_of(engine) == RECEIPTS
    assert rollups_of(engine) == rolled_up(RECEIPTS)
    assert list_segments(journal.folder) == [journal.segment]
    assert drain.lag_bytes == 0


def test_shipper_goes_on_in_the_open_segment_where_it_stopped(
    journal: Journal, drain: JournalShipper, engine: Engine
) -> None:
    for line in LINES[:5]:
        journal.append(line)
        drain.ship_all()

    assert ledger_of(engine) == RECEIPTS[:5]
    assert drain.lag_bytes == 0


def test_a_living_process_that_writes_is_no_reason_to_close_undrained(
    journal: Journal, drain: JournalShipper
) -> None:
    other = Journal(journal.folder)
    append(other, LINES[:3])
    drain.start()

    assert drain.close(10)
    assert drain.lag_bytes > 0
    other.close()


def test_the_segments_of_a_dead_process_are_adopted(
    journal: Journal, drain: JournalShipper, engine: Engine
) -> None:
    path = orphan(journal, b"".join(map(frame, LINES)))
    drain.ship_all()

    assert ledger_of(engine) == RECEIPTS
    assert not path.exists()


def test_the_segment_of_another_living_process_is_left_alone(
    journal: Journal, drain: JournalShipper, engine: Engine
) -> None:
    another = Journal(journal.folder)
    another.append(LINES[0])
    done = drain.ship_all()
    before = ledger_of(engine)
    another.close()
    drain.ship_all()

    assert done
    assert before == []
    assert ledger_of(engine) == RECEIPTS[:1]


def test_a_torn_line_costs_nothing_but_itself(
    journal: Journal, drain: JournalShipper, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    torn = frame(LINES[1])[:-9]
    orphan(journal, frame(LINES[0]) + torn + b"".join(map(frame, LINES[2:])) + frame(LINES[0])[:30])
    with caplog.at_level(logging.WARNING):
        drain.ship_all()

    assert ledger_of(engine) == [RECEIPTS[0], *RECEIPTS[2:]]
    assert sum("torn" in record.getMessage() for record in caplog.records) == 2
    aside = (journal.folder / "torn.lines").read_bytes()
    assert aside == torn[1:] + b"\n" + frame(LINES[0])[1:30] + b"\n"


def test_a_torn_line_that_a_full_disk_cannot_set_aside_is_named_in_the_log_and_holds_nothing_up(
    journal: Journal, drain: JournalShipper, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    torn = frame(LINES[2])[:-9]
    path = orphan(journal, frame(LINES[0]) + frame(LINES[1]) + torn)
    (journal.folder / "torn.lines").mkdir()  # nothing can be written there
    drained = drain.ship_all()

    assert drained
    assert drain.trouble is None
    assert ledger_of(engine) == RECEIPTS[:2]
    assert not path.exists()
    (message,) = (record.getMessage() for record in caplog.records)
    assert RECEIPTS[2].call_id in message
    assert len(message) < 200


def test_receipts_that_the_database_never_takes_are_set_aside_and_logged(
    journal: Journal, drain: JournalShipper, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    absurd = encode(a_receipt(99, cost_nanos=2**62))
    strange = b'{"no": "receipt"}'
    append(journal, [*LINES[:9], absurd, *LINES[9:20], strange, *LINES[20:]])
    with caplog.at_level(logging.ERROR):
        drained = drain.ship_all()

    assert drained
    assert ledger_of(engine) == RECEIPTS
    assert rollups_of(engine) == rolled_up(RECEIPTS)
    rejected = (journal.folder / "rejected.jsonl").read_bytes()
    assert rejected == absurd + b"\n" + strange + b"\n"
    assert len(caplog.records) == 2


def test_receipts_that_cannot_be_set_aside_stay_in_memory_and_are_retried(
    tmp_path: Path, engine: Engine
) -> None:
    full = Disk(write=raise_disk_full, allocate=raise_disk_full)
    journal = Journal(tmp_path / "journal", disk=full)
    strange = b'{"no": "receipt"}'
    journal.append(strange)
    drain = JournalShipper(journal, inserter(engine), pause=0.01)
    aside = journal.folder / "rejected.jsonl"
    aside.mkdir()  # nothing can be written there

    assert not drain.ship_all()
    assert journal.oldest_waiting(9) == [strange]

    aside.rmdir()
    assert drain.ship_all()
    assert aside.read_bytes() == strange + b"\n"
    assert journal.oldest_waiting(9) == []
    journal.close()


def raise_disk_full(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


class DeadlockingInsert:
    """An insert that loses the first deadlocks it gets into, before or after its work is done."""

    def __init__(self, insert: Insert, times: int) -> None:
        self._insert = insert
        self.times = times

    def __call__(self, receipts: Sequence[Receipt]) -> str | None:
        if self.times % 2 == 0:
            self._insert(receipts)
        if self.times:
            self.times -= 1
            raise StoreError("deadlock", is_outage=True)
        return self._insert(receipts)


def test_deadlocks_are_tried_again_even_where_the_work_was_done(
    journal: Journal, engine: Engine
) -> None:
    drain = JournalShipper(journal, DeadlockingInsert(inserter(engine), 3), pause=0.01)
    append(journal, LINES)
    drain.start()

    assert drain.flush(10)
    assert drain.close(10)
    assert ledger_of(engine) == RECEIPTS
    assert rollups_of(engine) == rolled_up(RECEIPTS)


def test_a_database_that_cannot_take_receipts_now_gets_them_later(
    journal: Journal, drain: JournalShipper, engine: Engine
) -> None:
    rename(engine, "calls", "away")
    drain.start()
    append(journal, LINES)
    too_early = drain.flush(0.2)
    trouble = drain.trouble
    rename(engine, "away", "calls")

    assert not too_early
    assert trouble is not None
    assert trouble.startswith("the database takes no receipts: ")
    assert drain.flush(10)
    assert drain.trouble is None
    assert ledger_of(engine) == RECEIPTS


def rename(engine: Engine, table: str, name: str) -> None:
    with write_transaction(engine) as connection:
        connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {name}")


def test_a_server_that_goes_away_and_comes_back_needs_no_restart(
    postgres: str, tmp_path: Path
) -> None:
    where = make_url(postgres)
    with WireCut(where.host or "", where.port or 5432) as wire:
        engine = open_database(
            where.set(port=wire.port, host="127.0.0.1").render_as_string(hide_password=False)
        )
        migrate(engine)
        journal = Journal(tmp_path)
        drain = JournalShipper(journal, inserter(engine), pause=0.01)
        drain.start()
        append(journal, LINES[:10])
        before = drain.flush(10)
        wire.close_connections()
        append(journal, LINES[10:])
        during = drain.flush(0.3)
        trouble = drain.trouble
        wire.mend()
        after = drain.flush(10)

        assert (before, during, after) == (True, False, True)
        assert trouble is not None
        assert ledger_of(engine) == RECEIPTS
        assert rollups_of(engine) == rolled_up(RECEIPTS)
        journal.close()
        assert drain.close(10)
        engine.dispose()


def test_drains_that_share_a_folder_and_its_copies_count_each_receipt_once(
    url: str, engine: Engine, tmp_path: Path
) -> None:
    """Four processes' worth of drains; each folder holds all receipts, in another order."""
    drains = []
    for seed in range(4):
        journal = Journal(tmp_path / f"journal{seed % 2}", bounds=JournalLimits(segment=3000))
        append(journal, random.Random(seed).sample(LINES, len(LINES)))  # noqa: S311 - an order
        own = open_database(url)
        drains.append((JournalShipper(journal, inserter(own), batch=5, pause=0.01), journal, own))
    for drain, _, _ in drains:
        drain.start()
    flushed = [drain.flush(20) for drain, _, _ in drains]
    for drain, journal, own in drains:
        journal.close()
        drain.close(10)
        own.dispose()

    assert flushed == [True] * 4
    assert ledger_of(engine) == RECEIPTS
    assert rollups_of(engine) == rolled_up(RECEIPTS)


def test_receipts_that_the_disk_refuses_go_straight_to_the_database(
    tmp_path: Path, sqlite_engine: Engine
) -> None:
    def refuse(file: int, line: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    journal = Journal(tmp_path / "journal", disk=Disk(write=refuse))
    drain = JournalShipper(journal, inserter(sqlite_engine), batch=7)
    append(journal, LINES)
    waiting = drain.lag_bytes
    drained = drain.ship_all()

    assert waiting == sum(len(frame(line)) for line in LINES)
    assert (drained, drain.lag_bytes) == (True, 0)
    assert ledger_of(sqlite_engine) == RECEIPTS
    journal.close()
    assert journal.log_waiting() == 0


def test_told_to_stop_it_drains_what_is_there_and_leaves_no_file(
    journal: Journal, drain: JournalShipper, engine: Engine
) -> None:
    drain.start()
    append(journal, LINES)
    journal.close()

    assert drain.close(10)
    assert ledger_of(engine) == RECEIPTS
    assert list_segments(journal.folder) == []


def test_told_to_stop_with_the_database_away_it_leaves_the_journal_as_it_is(
    journal: Journal, drain: JournalShipper, engine: Engine
) -> None:
    append(journal, LINES)
    rename(engine, "calls", "away")
    drain.start()
    journal.close()

    assert not drain.close(10)
    assert drain.lag_bytes > 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_drain_whose_thread_died_says_so(journal: Journal) -> None:
    def exit_process(receipts: Sequence[Receipt]) -> None:
        raise SystemExit

    drain = JournalShipper(journal, exit_process, pause=0.01)
    append(journal, LINES[:1])
    drain.start()
    until = time.monotonic() + 20
    while drain.trouble is None and time.monotonic() < until:
        time.sleep(0.01)

    assert drain.trouble == "the drain has stopped"
    assert not drain.flush(0.1)


def test_a_rush_is_drained_at_leisure_until_somebody_waits(tmp_path: Path) -> None:
    insert = CountingInsert()
    journal = Journal(tmp_path)
    for n in range(5000):
        journal.append(encode(a_receipt(n)))
    drain = JournalShipper(journal, insert, batch=10)
    started = time.monotonic()
    drain.start()
    assert drain.flush(20)
    flushed = time.monotonic() - started
    assert drain.close(20)
    journal.close()

    assert insert.count == 5000
    assert flushed < 4.0  # at leisure it would have been five seconds


class CountingInsert:
    """A database that takes everything and counts."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, receipts: Sequence[Receipt]) -> None:
        self.count += len(receipts)
