import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from proxy.calls.drafts.drafting import DRAFT_NUMBER
from proxy.configuration import read_snapshot
from proxy.records.receipt import Outcome, PendingAttempt, Receipt
from proxy.reloading import Reloader
from proxy.services.cut_attempts import (
    KILLED,
    book_cut_attempts,
    keep_cut_attempts_booked,
    keep_sent_attempts_in_place,
)
from proxy.settings import Settings
from proxy.store.journal.removed_segments import RemovedSegments
from proxy.store.journal.sent_attempts import SentAttempts, list_files
from proxy.store.store import Store
from slo.price import STANDARD_TERMS, call_cost
from tests.fakes.databases import migrated_sqlite
from tests.fakes.receipts import a_receipt

NOW = 1_790_000_000.0
STORE_THREADS = 4
SNAPSHOT = read_snapshot(Settings())
ROUTE = next(
    route
    for model in SNAPSHOT.catalog.models.values()
    for route in model.routes
    if route.tariff is not None and route.window is not None
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(migrated_sqlite(tmp_path / "ledger.db"), tmp_path / "journal")
    yield store
    store.close(5)


def sent_attempt(number: int, attempt: int = 0) -> PendingAttempt:
    return PendingAttempt(
        call_id=a_receipt(number).call_id,
        attempt=attempt,
        started=NOW,
        team="team",
        key_id="key",
        endpoint="chat/completions",
        route=ROUTE.name,
        upstream=ROUTE.upstream.name,
        streamed=True,
        prompt_bytes=400,
        output=10,
        tags=(("customer", "acme"),),
    )


def leave(folder: Path, *attempts: PendingAttempt) -> None:
    """Leave these attempts, as a process does that is killed."""
    journal = SentAttempts(folder, RemovedSegments(folder))
    for attempt in attempts:
        journal.begin(attempt)
    os.utime(journal._path, (NOW + 5, NOW + 5))
    os.close(journal._file)


def booked_receipts(store: Store, number: int) -> list[Receipt]:
    assert store.drain.flush(20)
    return store.ledger.attempts(a_receipt(number).call_id)


def test_an_attempt_without_a_receipt_gets_an_estimated_one_at_its_routes_price(store):
    leave(store.journal.folder, sent_attempt(1))

    assert book_cut_attempts(store, SNAPSHOT.catalog, 0.0) == 1
    (receipt,) = booked_receipts(store, 1)
    assert (receipt.outcome, receipt.error) == (Outcome.BROKEN, KILLED)
    assert receipt.final
    assert receipt.tags == (("customer", "acme"),)
    assert receipt.estimated
    assert receipt.usage is not None
    assert (receipt.usage.input, receipt.usage.output) == (100, 10)
    assert ROUTE.tariff is not None
    cost = call_cost(receipt.usage, ROUTE.tariff, NOW, STANDARD_TERMS)
    assert cost is not None
    assert receipt.cost_nanos == cost.effective_nanos > 0
    assert receipt.duration == 5.0
    assert list_files(store.journal.folder) == []
    assert book_cut_attempts(store, SNAPSHOT.catalog, 0.0) == 0


def test_cut_attempts_prompt_is_no_longer_than_its_routes_window(store):
    assert ROUTE.window is not None
    long = msgspec.structs.replace(sent_attempt(1), prompt_bytes=100 * ROUTE.window)
    leave(store.journal.folder, long)

    assert book_cut_attempts(store, SNAPSHOT.catalog, 0.0) == 1
    (receipt,) = booked_receipts(store, 1)
    assert receipt.usage is not None
    assert receipt.usage.input == ROUTE.window


def test_an_attempt_whose_receipt_is_kept_or_that_is_older_than_any_call_gets_none(store):
    store.keep(a_receipt(1))
    old = msgspec.structs.replace(sent_attempt(2), started=NOW - 90_000)
    leave(store.journal.folder, sent_attempt(1), old)

    assert book_cut_attempts(store, SNAPSHOT.catalog, 0.0) == 0
    assert booked_receipts(store, 1) == [a_receipt(1)]
    assert list_files(store.journal.folder) == []


def test_an_attempt_whose_receipt_may_be_deleted_by_now_gets_none(store):
    leave(store.journal.folder, sent_attempt(1))

    assert book_cut_attempts(store, SNAPSHOT.catalog, NOW + 1) == 0
    assert booked_receipts(store, 1) == []


def test_a_call_whose_attempts_were_cut_off_has_one_final_receipt(store):
    store.keep(a_receipt(1, attempt=0, final=False))
    store.keep(a_receipt(2, attempt=1))
    leave(
        store.journal.folder,
        sent_attempt(1, attempt=1),
        sent_attempt(1, attempt=2),
        sent_attempt(2, attempt=0),
    )

    assert book_cut_attempts(store, SNAPSHOT.catalog, 0.0) == 3
    assert [receipt.final for receipt in booked_receipts(store, 1)] == [False, False, True]
    assert [receipt.final for receipt in booked_receipts(store, 2)] == [False, True]


def test_a_draft_that_was_cut_off_is_final_only_where_its_call_has_no_other_attempt(store):
    draft = sent_attempt(1, DRAFT_NUMBER)
    leave(store.journal.folder, draft, sent_attempt(1), sent_attempt(2, DRAFT_NUMBER))
    assert book_cut_attempts(store, SNAPSHOT.catalog, 0.0) == 3
    answer, booked = booked_receipts(store, 1)

    assert (answer.final, answer.served_by, answer.fast_path_nanos) == (True, "", None)
    assert (booked.final, booked.served_by) == (False, "draft")
    assert booked.fast_path_nanos == -(booked.cost_nanos or 0) < 0
    assert [receipt.final for receipt in booked_receipts(store, 2)] == [True]


def test_attempts_of_a_living_process_are_left_alone(store):
    other = SentAttempts(store.journal.folder, store.journal.removed)
    other.begin(sent_attempt(1))

    assert book_cut_attempts(store, SNAPSHOT.catalog, 0.0) == 0
    assert len(list_files(store.journal.folder)) == 1
    other.close()


async def test_a_running_gateway_books_what_a_process_leaves_that_dies_beside_it(store):
    reloader = Reloader(Settings(), SNAPSHOT, lambda: NOW)

    booking = asyncio.ensure_future(keep_cut_attempts_booked(store, reloader, lambda: NOW))
    leave(store.journal.folder, sent_attempt(1))
    async with asyncio.timeout(30):
        while list_files(store.journal.folder):  # noqa: ASYNC110 - a file is no event
            await asyncio.sleep(0.05)
    booking.cancel()
    assert len(booked_receipts(store, 1)) == 1


def thread_name_at(barrier: threading.Barrier) -> Callable[[], str]:
    """A question that is answered once as many are asked at the same time as the barrier takes."""

    def ask() -> str:
        barrier.wait(20)
        return threading.current_thread().name

    return ask


async def test_reads_of_the_store_do_not_wait_while_cut_attempts_cannot_be_booked(store):
    reloader = Reloader(Settings(), SNAPSHOT, lambda: NOW)
    flushing, drained = threading.Event(), threading.Event()

    def wait_to_flush(_: float) -> bool:
        flushing.set()
        return drained.wait(60)

    store.drain.flush = wait_to_flush  # the database takes nothing

    leave(store.journal.folder, sent_attempt(1))
    booking = asyncio.ensure_future(keep_cut_attempts_booked(store, reloader, lambda: NOW))
    assert await asyncio.to_thread(flushing.wait, 30)
    barrier = threading.Barrier(STORE_THREADS)
    names = (thread_name_at(barrier) for _ in range(STORE_THREADS))
    answers = await asyncio.gather(*(store.ask(name) for name in names))
    drained.set()
    booking.cancel()

    assert len(set(answers)) == STORE_THREADS


async def test_a_running_gateway_makes_the_file_of_attempts_under_way_anew_once_it_is_removed(
    store,
):
    looking = asyncio.ensure_future(keep_sent_attempts_in_place(store.sent))
    store.sent.begin(sent_attempt(1))
    (path,) = list_files(store.journal.folder)
    path.unlink()
    async with asyncio.timeout(30):
        while not list_files(store.journal.folder):  # noqa: ASYNC110 - a file is no event
            await asyncio.sleep(0.01)
    looking.cancel()
    (path,) = list_files(store.journal.folder)
    assert path.stat().st_size
