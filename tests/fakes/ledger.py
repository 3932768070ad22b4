"""Books receipts into a database, and reads back whole tables of it."""

import gc
import time
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Engine, select

from proxy.records.receipt import Receipt
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.receipt_columns import receipt_from_row
from proxy.store.sql.rollups.pending_sums import PendingSums

#: Parts of a test's receipts that sums of days and histograms have: none, some, and all.
MERGED_PARTS: Final = (0.0, 0.6, 1.0)


def book(engine: Engine, receipts: Sequence[Receipt], merged_part: float) -> None:
    """Put receipts into a database, and move sums of the first of them to their days."""
    count = round(len(receipts) * merged_part)
    insert = inserter(engine)
    insert(receipts[:count])
    PendingSums(engine).merge(60.0)
    insert(receipts[count:])


def sleep_long(_readers: object, seconds: float) -> float:
    """A question that takes so long."""
    time.sleep(seconds)
    return seconds


def garbage_threshold(_readers: object) -> int:
    """A question for the new objects after which the process that answers looks for garbage."""
    return gc.get_threshold()[0]


def ledger_of(engine: Engine) -> list[Receipt]:
    """All receipts in the database, in order."""
    query = select(schema.calls).order_by(schema.calls.c.call_id, schema.calls.c.attempt)
    with read_transaction(engine) as connection:
        return [receipt_from_row(row) for row in connection.execute(query)]


def rollups_of(engine: Engine) -> dict[tuple[Any, ...], dict[str, int | None]]:
    """All rollups in the database, by key."""
    key = [column.name for column in schema.rollups.primary_key.columns]
    with read_transaction(engine) as connection:
        rows = connection.execute(select(schema.rollups)).mappings().all()
    return {
        tuple(row[name] for name in key): {
            name: value for name, value in row.items() if name not in key
        }
        for row in rows
    }
