"""Moves sums of new calls from the pending tables into hours, days, weeks and histograms.

New batches are appended to the pending tables without a lookup. Every few seconds all of them are
added up and moved at once, so a day's row is written once for many batches. Readers sum both in one
snapshot, so it does not matter when something is moved; late calls are moved like any other.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Column, Connection, Engine, Table, delete, func, select

from proxy.store.sql.database import write_transaction
from proxy.store.sql.rollups.rollup_statements import (
    HOUR_OF_DAY,
    LATENCIES,
    days_statement,
    histogram_statements,
    hours_statement,
    weeks_statement,
)
from proxy.store.sql.rollups.rollup_tables import (
    latency_day_histograms,
    latency_hour_histograms,
    latency_pending,
    rollup_pending,
)

_DAY_S: Final = 86_400
#: Rows that one transaction moves: SQLite lets nobody else write meanwhile.
_ROWS_PER_STEP: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Addition:
    """Statements that add ``moved``, some rows of a pending table.

    Attributes:
        statements: Each adds them to one table.
        only: The condition for rows that they can add.
    """

    statements: list[str]
    only: str


class PendingSums:
    """Pending sums and latencies of one database; every method may block."""

    def __init__(self, engine: Engine, rows_per_step: int = _ROWS_PER_STEP) -> None:
        self._engine = engine
        self._rows = rows_per_step

    def merge(self, budget: float) -> int:
        """Move all that waits; returns the number of rows that were moved.

        Each step is one transaction: a row is counted once, whatever fails, and by whichever
        process moves it.

        Args:
            budget: Seconds after which no further step begins.
        """
        until, total = time.monotonic() + budget, 0
        for table in (rollup_pending.name, latency_pending.name):
            moved = self._rows
            while moved >= self._rows and time.monotonic() < until:
                with write_transaction(self._engine) as connection:
                    is_postgres = connection.dialect.name == "postgresql"
                    move = _move_in_postgres if is_postgres else _move_in_sqlite
                    moved = move(connection, table, self._rows)
                total += moved
        return total

    def delete_histograms(self, before: float, budget: float) -> int:
        """Delete histograms of days and hours before a moment; sums of that time stay.

        Args:
            before: Seconds since the epoch; the day that it lies in stays.
            budget: Seconds after which no further step begins.
        """
        until, first, deleted = time.monotonic() + budget, int(before) // _DAY_S, 0
        for table, moment, end in (
            (latency_day_histograms, latency_day_histograms.c.day, first),
            (latency_hour_histograms, latency_hour_histograms.c.hour, first * _DAY_S),
        ):
            for metric in LATENCIES:
                gone = 1
                while gone and time.monotonic() < until:
                    gone = self._delete_oldest(table, moment, metric, end)
                    deleted += gone
        return deleted

    def _delete_oldest(self, table: Table, moment: Column[int], metric: str, end: int) -> int:
        """Delete a metric's rows of the oldest day or hour before an end; returns their number."""
        of_metric = table.c.metric == metric
        with write_transaction(self._engine) as connection:
            oldest = connection.execute(select(func.min(moment)).where(of_metric)).scalar()
            if oldest is None or oldest >= end:
                return 0
            return connection.execute(delete(table).where(of_metric, moment == oldest)).rowcount


def _move_in_sqlite(connection: Connection, table: str, limit: int) -> int:
    """Move the oldest rows, under the one write lock."""
    oldest = f"SELECT max(rowid) FROM (SELECT rowid FROM {table} ORDER BY rowid LIMIT {limit})"  # noqa: S608 - made of the schema's own names
    last = connection.exec_driver_sql(oldest).scalar()
    if last is None:
        return 0
    rows = f"{table} WHERE rowid <= {last}"
    addition = _addition(connection, table, rows)
    for statement in addition.statements:
        connection.exec_driver_sql(f"WITH moved AS (SELECT * FROM {rows}) {statement}")  # noqa: S608 - as above
    return connection.exec_driver_sql(f"DELETE FROM {rows}").rowcount  # noqa: S608 - as above


def _move_in_postgres(connection: Connection, table: str, limit: int) -> int:
    """Move some rows by one statement: what it deletes is added, whoever else moves rows."""
    addition = _addition(connection, table, table)
    some = f"SELECT ctid FROM {table} WHERE {addition.only} LIMIT {limit}"  # noqa: S608 - as above
    added = ", ".join(
        f"added_{n} AS ({added_statement})" for n, added_statement in enumerate(addition.statements)
    )
    statement = (
        f"WITH moved AS (DELETE FROM {table} WHERE ctid IN ({some}) RETURNING *),"  # noqa: S608 - as above
        f" {added} SELECT count(*) FROM moved"
    )
    moved: int = connection.exec_driver_sql(statement.replace("%", "%%")).scalar_one()
    return moved


def _addition(connection: Connection, table: str, rows: str) -> _Addition:
    """The statements for rows of a table; they name only columns that these rows have."""
    if table == latency_pending.name:
        return _histogram_addition(connection, rows)
    hours = _values(connection, f"SELECT DISTINCT {HOUR_OF_DAY} FROM {rows}")  # noqa: S608 - as above
    # Batches that come in between may have other hours, which no statement here has.
    only = f"{HOUR_OF_DAY} IN ({', '.join(map(str, hours))})"
    return _Addition([weeks_statement(), days_statement(), hours_statement(hours)], only)


def _histogram_addition(connection: Connection, rows: str) -> _Addition:
    metric_rows = " UNION ".join(f"SELECT {metric} FROM {rows}" for metric in LATENCIES)  # noqa: S608 - as above
    values = _values(connection, f"SELECT * FROM ({metric_rows}) AS buckets")  # noqa: S608 - as above
    buckets = [bucket for bucket in values if bucket is not None] or [0]
    some = f"IN ({', '.join(map(str, buckets))})"
    only = " AND ".join(f"({metric} IS NULL OR {metric} {some})" for metric in LATENCIES)
    return _Addition(histogram_statements(buckets), only)


def _values(connection: Connection, query: str) -> list[Any]:
    """The values that a query finds; [0] for none."""
    is_postgres = connection.dialect.name == "postgresql"
    result = connection.exec_driver_sql(query.replace("%", "%%") if is_postgres else query)
    return [*result.scalars()] or [0]
