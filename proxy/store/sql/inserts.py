"""Batches of receipts put into the database: each once, and the rollups with them.

One transaction inserts the calls that are new and adds exactly those to the rollups, so a batch
may come twice, in parts, or to two processes at once, and the sums stay right. A batch is a few
statements, however many rows it has: the thread that runs them shares the interpreter with the
gateway, and gives it up once per statement.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Connection, Engine, Integer
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from proxy.records.receipt import Receipt
from proxy.store.sql import schema
from proxy.store.sql.database import write_transaction
from proxy.store.sql.rows import COLUMNS, row_from_receipt

_SQLITE_ROWS = 100  # 50 variables each, of the 32,766 that SQLite allows in a statement
_PROGRAM_LIMIT_CLASS = (
    "54"  # PostgreSQL's class of errors for what exceeds its limits, SQLSTATE appendix
)

Insert = Callable[[Sequence[Receipt]], str | None]
"""Puts receipts into the database: None, or why it will never take this batch; else raises."""


def inserter(engine: Engine) -> Insert:
    """Returns a function that puts receipts into the database behind ``engine``."""
    put = _postgres if engine.dialect.name == "postgresql" else _sqlite

    def insert(receipts: Sequence[Receipt]) -> str | None:
        try:
            # Sorted, so that two writers wait for each other in one order and never in a ring.
            rows = sorted((row_from_receipt(each) for each in receipts), key=_key)
            with write_transaction(engine) as connection:
                put(connection, rows)
                _keep_prompts(connection, receipts)
        except (DataError, IntegrityError, OverflowError) as error:
            return str(error.__cause__ or error)
        except DBAPIError as error:
            if str(getattr(error.orig, "sqlstate", "")).startswith(_PROGRAM_LIMIT_CLASS):
                return str(error.orig)
            raise
        return None

    return insert


def _key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return values[:2]


_NAMES = ", ".join(COLUMNS)

SUMS = {
    "calls": "sum(final)",
    "attempts": "count(*)",
    "errors": "sum(CASE WHEN final = 1 AND outcome IN ('refused', 'failed', 'broken') "
    "THEN 1 ELSE 0 END)",
    "estimated": "sum(estimated)",
    "unpriced": "sum(CASE WHEN cost_nanos IS NULL AND (input IS NOT NULL OR outcome = 'answered') "
    "THEN 1 ELSE 0 END)",
    **{bucket: f"coalesce(sum({bucket}), 0)" for bucket in schema.BUCKETS},
    "list_nanos": "sum(list_nanos)",
    "cost_nanos": "sum(cost_nanos)",
    "ttft_sum": "coalesce(sum(CASE WHEN final = 1 THEN ttft END), 0)",
    "ttft_count": "count(CASE WHEN final = 1 THEN ttft END)",
    "duration_sum": "sum(final * duration)",
    **{f"{phase}_sum": f"sum({phase})" for phase in schema.PHASES},
    "phases_count": "nullif(count(prefill), 0)",
    **{name: f"sum({name})" for name in ("draft_tokens", "accepted_tokens", "gpu_seconds")},
}
"""Columns that rollups sum over calls."""
_GROUP = tuple(column.name for column in schema.rollups.primary_key.columns)
_GROUP_NAMES = ", ".join(_GROUP)
_TIMES = {
    "day": "started / 86400000000 AS day",
    "quarter": "started / 900000000 * 900 AS quarter",
}
_GROUPED = ", ".join(_TIMES.get(name, name) for name in _GROUP)


def _summed_column(name: str) -> str:
    """SQL that adds to a rollup's sum; what is unknown on one side is the other's."""
    old, new = f"rollups.{name}", f"excluded.{name}"
    if schema.rollups.c[name].nullable:
        return f"{name} = coalesce({old} + {new}, {old}, {new})"
    return f"{name} = {old} + {new}"


def rollup_statement(source: str) -> str:
    """The statement that adds the calls in ``source`` to the rollups, in the order of their key."""
    return f"""
        INSERT INTO rollups ({_GROUP_NAMES}, {", ".join(SUMS)})
        SELECT {_GROUPED}, {", ".join(SUMS.values())}
        FROM {source}
        GROUP BY {_GROUP_NAMES} ORDER BY {_GROUP_NAMES}
        ON CONFLICT ({_GROUP_NAMES}) DO UPDATE SET {", ".join(map(_summed_column, SUMS))}
    """  # noqa: S608 - made of the schema's own names


_SQLITE_ROLLUPS = rollup_statement("calls WHERE rowid > ?")


def _sqlite(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert under the one write lock: what has a higher row id than all before is new."""
    last = connection.exec_driver_sql("SELECT coalesce(max(rowid), 0) FROM calls").scalar_one()
    for start in range(0, len(rows), _SQLITE_ROWS):
        part = rows[start : start + _SQLITE_ROWS]
        connection.exec_driver_sql(
            _sqlite_insert(len(part)), tuple(value for values in part for value in values)
        )
    connection.exec_driver_sql(_SQLITE_ROLLUPS, (last,))


def _sqlite_insert(rows: int) -> str:
    marks = f"({', '.join('?' * len(COLUMNS))})"
    return (
        f"INSERT INTO calls ({_NAMES}) VALUES {', '.join([marks] * rows)} "  # noqa: S608 - as above
        "ON CONFLICT DO NOTHING"
    )


def _type(column: Any) -> str:  # noqa: ANN401 - a Column of any type
    if isinstance(column.type, BigInteger):
        return "bigint"
    return "integer" if isinstance(column.type, Integer) else "text"


_TYPED = ", ".join(f"{column.name} {_type(column)}" for column in schema.calls.columns)
_POSTGRES = f"""
    WITH new AS (
        INSERT INTO calls ({_NAMES})
        SELECT {_NAMES} FROM json_to_recordset(%s::json) AS batch ({_TYPED})
        ORDER BY call_id, attempt
        ON CONFLICT DO NOTHING
        RETURNING *
    )
    {rollup_statement("new")}
"""  # noqa: S608 - as above


def _postgres(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert by one statement: what it returns as inserted is new, whoever else is writing."""
    batch = msgspec.json.encode([dict(zip(COLUMNS, values, strict=True)) for values in rows])
    connection.exec_driver_sql(_POSTGRES, (batch.decode(),))


def _keep_prompts(connection: Connection, receipts: Sequence[Receipt]) -> None:
    kept = sorted({r.call_id: r.prompt for r in receipts if r.prompt is not None}.items())
    if kept:
        mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
        connection.exec_driver_sql(
            f"INSERT INTO prompts (call_id, text) VALUES ({mark}, {mark}) ON CONFLICT DO NOTHING",  # noqa: S608
            kept,
        )
