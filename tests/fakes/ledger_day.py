"""Receipts of the day before a moment, for trials of policies."""

from typing import Any, Final

from sqlalchemy import Engine

from proxy.records.receipt import Receipt
from proxy.store.sql.ids import call_ids
from proxy.store.sql.views.setup.past_calls import yesterday
from tests.fakes.ledger import book
from tests.fakes.receipts import a_receipt

_DAY_S: Final = 86_400.0
_make_id = call_ids()


def receipt_of_yesterday(now: float, after: float, **changes: Any) -> Receipt:
    """A receipt of a call that arrived so many seconds after yesterday began."""
    started = yesterday(now) + after
    return a_receipt(started=started, **{"call_id": _make_id(started), **changes})


def book_calls_of_yesterday(engine: Engine, now: float, count: int, **changes: Any) -> None:
    """Put so many calls into a database, one a minute from the beginning of yesterday."""
    book(engine, [receipt_of_yesterday(now, 60.0 * n, **changes) for n in range(count)], 1.0)
