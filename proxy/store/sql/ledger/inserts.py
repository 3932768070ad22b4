"""Inserts batches of receipts: each receipt once, and the rollups in the same transaction.

One transaction inserts the calls that are new and adds exactly those to the rollups, so a batch
may come twice, in parts, or to two processes at once, and the sums stay right. A batch is a few
statements, however many rows it has: the thread that runs them shares the interpreter with the
gateway, and gives it up once per statement. It is summed once, by quarter; sums of days and hours,
and histograms, are made of many batches later (``pending_sums``).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine

from proxy.records.receipt import Receipt
from proxy.store.errors import StoreError
from proxy.store.sql.database import write_transaction
from proxy.store.sql.receipt_columns import COLUMNS, RECEIPT_COLUMNS, row_from_receipt
from proxy.store.sql.rollups.rollup_statements import (
    estimated_statement,
    fallbacks_statement,
    fast_path_statement,
    misses_statement,
    pending_latencies_statement,
    pending_sums_statement,
    quarters_statement,
    unanswered_statement,
)

#: Rows of a statement: SQLite allows 32,766 variables in one, and a row has up to 66. Any batch is
#: a few of these, which stay prepared: preparing a statement takes longer than running it.
_SQLITE_ROWS = (256, 128, 64, 32, 16, 8, 4, 2, 1)

Insert = Callable[[Sequence[Receipt]], str | None]
"""Puts receipts into the database: None, or why it will never take this batch; else raises."""


def inserter(engine: Engine) -> Insert:
    """Returns a function that puts receipts into the database behind ``engine``."""
    put = _postgres if engine.dialect.name == "postgresql" else _SqliteInserts()

    def insert(receipts: Sequence[Receipt]) -> str | None:
        try:
            # Sorted, so that two writers wait for each other in one order and never in a ring.
            rows = sorted((row_from_receipt(receipt) for receipt in receipts), key=_key)
            with write_transaction(engine) as connection:
                put(connection, rows)
                _keep_prompts(connection, receipts)
        except OverflowError as error:
            return str(error)
        except StoreError as error:
            if not error.is_row_refused:
                raise
            return str(error)
        return None

    return insert


def _key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return values[:2]


_NAMES = ", ".join(COLUMNS)

_OF_NEW = (
    pending_sums_statement(),
    misses_statement(),
    unanswered_statement(),
    fallbacks_statement(),
    estimated_statement(),
    fast_path_statement(),
    pending_latencies_statement(),
)
_SQLITE_OF_NEW = [
    f"WITH new AS NOT MATERIALIZED (SELECT * FROM calls WHERE rowid > ?) {each}"  # noqa: S608 - as below
    for each in _OF_NEW
]
_SQLITE_QUARTERS = quarters_statement("rollup_pending WHERE rowid > ?")
_SQLITE_LAST = (
    "SELECT (SELECT coalesce(max(rowid), 0) FROM calls),"
    " (SELECT coalesce(max(rowid), 0) FROM rollup_pending)"
)


class _SqliteInserts:
    """Inserts into one SQLite database; columns that were null in all rows so far are left out.

    Half of a usual row is null, and binding a null takes longer than binding a number. Columns of
    one batch alone would make almost every statement a new one where calls differ.
    """

    def __init__(self) -> None:
        self._used: tuple[int, ...] = ()

    def __call__(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert under the one write lock: what has a higher row id than all before is new."""
        last, last_pending = connection.exec_driver_sql(_SQLITE_LAST).one()
        columns = enumerate(zip(*rows, strict=True))
        given = {n for n, values in columns if values.count(None) < len(rows)}
        self._used = used = tuple(sorted(given.union(self._used)))
        start = 0
        for size in _SQLITE_ROWS:
            while len(rows) - start >= size:
                part = map(itemgetter(*used), rows[start : start + size])
                statement = _sqlite_statement(used, size)
                connection.exec_driver_sql(statement, tuple(chain.from_iterable(part)))
                start += size
        for statement in _SQLITE_OF_NEW:
            connection.exec_driver_sql(statement, (last,))
        connection.exec_driver_sql(_SQLITE_QUARTERS, (last_pending,))


@lru_cache(maxsize=128)
def _sqlite_statement(columns: Sequence[int], rows: int) -> str:
    names = ", ".join(COLUMNS[n] for n in columns)
    marks = ", ".join([f"({', '.join('?' * len(columns))})"] * rows)
    return f"INSERT INTO calls ({names}) VALUES {marks} ON CONFLICT DO NOTHING"  # noqa: S608 - made of the schema's own names


_TYPED = ", ".join(f"{column.name} {column.sql_type}" for column in RECEIPT_COLUMNS)
_PENDING, *_OTHERS = _OF_NEW
_POSTGRES = f"""
    WITH new AS (
        INSERT INTO calls ({_NAMES})
        SELECT {_NAMES} FROM json_to_recordset(%s::json) AS batch ({_TYPED})
        ORDER BY call_id, attempt
        ON CONFLICT DO NOTHING
        RETURNING *
    ), pending AS ({_PENDING} RETURNING *),
    {", ".join(f"added_{n} AS ({each})" for n, each in enumerate(_OTHERS))}
    {quarters_statement("pending")}
"""  # noqa: S608 - as above


def _postgres(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert by one statement: what it returns as inserted is new, whoever else is writing."""
    batch = msgspec.json.encode([dict(zip(COLUMNS, values, strict=True)) for values in rows])
    connection.exec_driver_sql(_POSTGRES, (batch.decode(),))


def _keep_prompts(connection: Connection, receipts: Sequence[Receipt]) -> None:
    prompts = sorted({r.call_id: r.prompt for r in receipts if r.prompt is not None}.items())
    if prompts:
        mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
        connection.exec_driver_sql(
            f"INSERT INTO prompts (call_id, text) VALUES ({mark}, {mark}) ON CONFLICT DO NOTHING",  # noqa: S608
            prompts,
        )
