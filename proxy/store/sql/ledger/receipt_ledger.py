"""The ledger: reads receipts by call, counts them, and deletes old ones."""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sqlalchemy import Column, Engine, Table, and_, delete, func, or_, select

from proxy.records.receipt import Receipt
from proxy.store.errors import StoreError
from proxy.store.journal import segments
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.receipt_columns import receipt_from_row

_ROWS_PER_DELETE = 2_000
_IDS_PER_QUERY = 500
#: Receipts read at once; a kept prompt of each may have 4 MB.
_RECEIPTS_PER_READ = 50
_RECEIPTS = select(schema.calls, schema.prompts.c.text).outerjoin(
    schema.prompts, schema.calls.c.call_id == schema.prompts.c.call_id
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionResult:
    """Number of rows that retention deleted, and whether nothing older is left."""

    calls: int
    prompts: int
    done: bool


class ReceiptLedger:
    """Receipts in the database, and those still in the journal's folder."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder

    def call_receipts(self, call_id: str, team: str) -> list[Receipt]:
        """The receipts of a team's call, first attempt first; none if the team made no such call.

        Raises:
            StoreError: As ``attempts``.
        """
        return [receipt for receipt in self.attempts(call_id) if receipt.team == team]

    def attempts(self, call_id: str) -> list[Receipt]:
        """The receipts of a call of any team, first attempt first; none if there was no such call.

        A call is found from the moment it is appended to the journal.

        Raises:
            StoreError: The database is away, and the journal's newest part lacks the call.
        """
        receipts: dict[int, Receipt] = {}
        away: StoreError | None = None
        # The drain may move the call after the first look, so the database is asked again.
        for look in (self._stored_receipts, self._journalled_receipts, self._stored_receipts):
            try:
                receipts |= {receipt.attempt: receipt for receipt in look(call_id)}
            except StoreError as error:
                away = error
            if any(receipt.final for receipt in receipts.values()):
                break
        if away is not None and not receipts:
            raise away
        return [receipts[attempt] for attempt in sorted(receipts)]

    def receipts_since(self, since: float, team: str = "") -> Iterator[Receipt]:
        """The receipts of all calls since a moment, as they arrived; with kept prompts.

        They are read a few at a time, so that the database serves others in between.

        Args:
            team: Of this team's calls alone; "" for all.
        """
        calls = schema.calls.c
        query = _RECEIPTS.order_by(calls.call_id, calls.attempt).limit(_RECEIPTS_PER_READ)
        if team:
            query = query.where(calls.team == team)
        last, attempt = id_floor(since), -1
        while True:
            later = or_(calls.call_id > last, and_(calls.call_id == last, calls.attempt > attempt))
            with read_transaction(self._engine) as connection:
                some = [
                    receipt_from_row(row[:-1], row[-1])
                    for row in connection.execute(query.where(later))
                ]
            yield from some
            if len(some) < _RECEIPTS_PER_READ:
                return
            last, attempt = some[-1].call_id, some[-1].attempt

    def count_calls(self) -> int:
        """Number of calls the ledger holds, however many attempts each took."""
        query = select(func.count()).where(schema.calls.c.final == 1)
        with read_transaction(self._engine) as connection:
            return connection.execute(query).scalar_one()

    def recorded_attempts(self, receipts: Collection[Receipt]) -> set[tuple[str, int]]:
        """Call and attempt of those receipts that the ledger already has."""
        table, recorded = schema.calls.c, set[tuple[str, int]]()
        rest = iter({receipt.call_id for receipt in receipts})
        with read_transaction(self._engine) as connection:
            while some := list(islice(rest, _IDS_PER_QUERY)):
                query = select(table.call_id, table.attempt).where(table.call_id.in_(some))
                recorded |= {(row.call_id, row.attempt) for row in connection.execute(query)}
        return recorded

    def missing_calls(self, call_ids: Collection[str]) -> list[str]:
        """Those of the calls that do not stand in the ledger exactly once, in order."""
        table, once = schema.calls.c, set[str]()
        rest = iter(call_ids)
        with read_transaction(self._engine) as connection:
            while some := list(islice(rest, _IDS_PER_QUERY)):
                query = (
                    select(table.call_id)
                    .where(table.call_id.in_(some), table.final == 1)
                    .group_by(table.call_id)
                    .having(func.count() == 1)
                )
                once.update(connection.execute(query).scalars())
        return sorted(set(call_ids) - once)

    def retain(self, since: float, budget: float) -> RetentionResult:
        """Delete the calls and prompts that arrived before ``since``; rollups stay.

        Ids sort by time, so each step deletes a short range at the start of the primary key, in
        its own transaction.

        Args:
            budget: Seconds after which no further step begins.
        """
        until = time.monotonic() + budget
        prompts, no_prompts = self._delete(schema.prompts, id_floor(since), until)
        calls, no_calls = self._delete(schema.calls, id_floor(since), until)
        return RetentionResult(calls=calls, prompts=prompts, done=no_prompts and no_calls)

    def _stored_receipts(self, call_id: str) -> list[Receipt]:
        calls = schema.calls.c
        query = _RECEIPTS.where(calls.call_id == call_id).order_by(calls.attempt)
        with read_transaction(self._engine) as connection:
            return [receipt_from_row(row[:-1], row[-1]) for row in connection.execute(query)]

    def _journalled_receipts(self, call_id: str) -> list[Receipt]:
        return segments.receipts_of_call(self._folder, call_id)

    def _delete(self, table: Table, floor: str, until: float) -> tuple[int, bool]:
        """Delete rows; returns their number, and whether all below ``floor`` are gone."""
        call_id: Column[str] = table.c.call_id
        edge = (
            select(call_id)
            .where(call_id < floor)
            .order_by(call_id)
            .offset(_ROWS_PER_DELETE)
            .limit(1)
        )
        deleted = 0
        while time.monotonic() < until:
            with write_transaction(self._engine) as connection:
                end = connection.execute(edge).scalar()
                step = delete(table).where(call_id < (end or floor))
                deleted += connection.execute(step).rowcount
            if end is None:
                return deleted, True
        return deleted, False
