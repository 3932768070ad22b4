"""Receipts are stored before they are counted, and nothing is lost silently at the end."""

from types import SimpleNamespace
from typing import Any

import pytest

from proxy.errors import Unready
from proxy.services.receipt_storage import ReceiptDispatcher, capacity_trouble, close_store
from proxy.store.errors import StoreError
from tests.fakes.receipts import a_receipt


class RecordedSteps:
    """A store and the telemetry in one, which note who saw a receipt."""

    def __init__(self, *, is_full: bool = False) -> None:
        self.steps: list[str] = []
        self.is_full = is_full
        self.ledger = SimpleNamespace(call_receipts=None)

    def keep(self, _: Any) -> None:
        self.steps.append("journal")
        if self.is_full:
            raise StoreError("the disk is full")

    def observe(self, _: Any) -> None:
        self.steps.append("metrics")

    async def ask(self, *_: Any) -> Any:
        raise StoreError("the database is away")

    def hear(self, _: Any) -> None:
        self.steps.append("listener")


def dispatcher_of(recorded: Any) -> ReceiptDispatcher:
    dispatcher = ReceiptDispatcher(recorded, recorded)
    dispatcher.listen(recorded.hear)
    return dispatcher


def test_receipt_is_stored_before_it_is_counted_and_heard():
    recorded = RecordedSteps()

    dispatcher_of(recorded).keep(a_receipt())

    assert recorded.steps == ["journal", "metrics", "listener"]


def test_listeners_hear_of_a_receipt_that_cannot_be_stored():
    recorded = RecordedSteps(is_full=True)

    with pytest.raises(StoreError):
        dispatcher_of(recorded).keep(a_receipt())

    assert recorded.steps == ["journal", "listener"]


async def test_receipts_of_a_call_are_unready_while_the_database_is_away():
    with pytest.raises(Unready) as raised:
        await dispatcher_of(RecordedSteps()).receipts("call_1", "team_1")

    assert raised.value.code == "ledger_unavailable"


@pytest.mark.parametrize(
    ("journal_full", "journal_exhausted", "drain_trouble", "refuses"),
    [
        (False, False, None, False),
        (True, False, None, True),
        (False, True, None, False),
        (False, True, "away", True),
        (False, False, "away", False),
    ],
)
def test_calls_are_refused_where_neither_journal_nor_database_takes_receipts(
    journal_full, journal_exhausted, drain_trouble, refuses
):
    store: Any = SimpleNamespace(
        journal=SimpleNamespace(is_full=journal_full, is_exhausted=journal_exhausted),
        drain=SimpleNamespace(trouble=drain_trouble),
    )

    assert bool(capacity_trouble(store)) is refuses


@pytest.mark.parametrize(
    ("drained", "lost", "segments", "message"),
    [
        (True, 0, False, ""),
        (True, 2, False, "2 receipts could be kept nowhere else than in this log"),
        (False, 0, True, "Receipts stay in the journal"),
        (False, 0, False, "The ledger may lack receipts"),
    ],
)
def test_close_logs_where_receipts_are(caplog, drained, lost, segments, message):
    journal = SimpleNamespace(lost_receipts=lost, has_segments=lambda: segments, folder="journal")
    store: Any = SimpleNamespace(close=lambda _: drained, journal=journal)

    close_store(store, 1.0)

    assert message in caplog.text
    assert bool(caplog.text) is bool(message)
