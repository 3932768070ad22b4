"""Spending by name according to the ledger, for comparison with budgets.

Rollups answer for dollars and tokens by the quarter of an hour. Receipts answer for all else, by a
range of their ids, which sort by time, and never more of them at once than ``MAX_CALLS``.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Row,
    Select,
    case,
    cast,
    func,
    literal,
    select,
    true,
)

from proxy.records.receipt import IDLE_TEAM, Outcome, Receipt
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.rollups.rollup_tables import rollup_days, rollup_pending
from proxy.store.sql.timestamps import micros, seconds
from slo.budgets.budget import EVERY

_DAY_S = 86_400
#: Seconds that attempts take at most, of those whose end is looked at.
_MAX_ATTEMPT_S = 3600.0
_READ = (
    *("final", "outcome", "team", "key_id", "feature", "user_hash", "cost_nanos"),
    *schema.BUCKETS,
)
#: Teams, keys, features and users that one budget is compared for, those that used most.
MAX_NAMES: Final = 5_000
#: Receipts that one question reads; of more the first in time. SQLite takes a quarter of a second.
MAX_CALLS: Final = 250_000


class Spending(msgspec.Struct, frozen=True):
    """An amount of each unit that was used.

    Attributes:
        nanos: In 1e-9 US dollars, as far as prices were known.
        tokens: In all buckets together.
        requests: Calls that were sent; 0 where rollups were asked, which do not know.
    """

    nanos: int
    tokens: int
    requests: int = 0


class NamedSpendings(msgspec.Struct, frozen=True):
    """Spending by name; not whole where there was more than one query reads."""

    by: dict[str, Spending]
    is_whole: bool


class Spendings:
    """Queries of spending, over one database.

    Args:
        most_calls: Most receipts read by one query.
    """

    def __init__(self, engine: Engine, most_calls: int = MAX_CALLS) -> None:
        self._engine = engine
        self._most_calls = most_calls

    def from_rollups(
        self, scope: str, start: float, end: float, ended_before: float | None = None
    ) -> dict[str, Spending]:
        """By the names that budgets of this scope know, from rollups.

        Rollups have no requests that were sent, no end users and no labels.

        Args:
            scope: ``organization``, ``team``, ``key`` or ``feature``; {} for others.
            start: Seconds since the epoch, a whole quarter of an hour.
            end: The same, not included.
            ended_before: Leaves out what attempts used that ended then or later, as receipts say;
                None for nothing.
        """
        table = schema.rollups
        query = _sums_by_name(scope, table)
        if query is None:
            return {}
        # A step down the key for each team, where days are in order, finds a short time at once.
        query = query.where(
            table.c.team.in_(select(schema.teams.c.id)),
            table.c.day.between(int(start) // _DAY_S, int(end) // _DAY_S),
            table.c.quarter >= int(start),
            table.c.quarter < int(end),
        )
        late: dict[str, Spending] = {}
        with read_transaction(self._engine, is_snapshot=ended_before is not None) as connection:
            spendings = {row.whose: Spending(row.nanos, row.n) for row in connection.execute(query)}
            if ended_before is not None:
                since = max(start, ended_before - _MAX_ATTEMPT_S)
                has_ended = _ended_micros() < micros(ended_before)
                rows = self._calls(connection, scope, (since, end), ~has_ended)
                late = {row.whose: Spending(row.nanos, row.n) for row in rows}
        return {
            whose: Spending(
                spending.nanos - late[whose].nanos, spending.tokens - late[whose].tokens
            )
            if whose in late
            else spending
            for whose, spending in spendings.items()
        }

    def from_receipts(
        self, scope: str, start: float, end: float, ended_before: float | None = None
    ) -> NamedSpendings:
        """The same from receipts, which know requests, end users by their keyed hash, and minutes.

        Args:
            scope: As for rollups, or ``user``; {} for labels.
            start: Seconds since the epoch, to the millisecond.
            end: The same, not included.
            ended_before: As for rollups.
        """
        condition = true() if ended_before is None else _ended_micros() < micros(ended_before)
        with read_transaction(self._engine) as connection:
            rows = self._calls(connection, scope, (start, end), condition)
        return NamedSpendings(
            {row.whose: Spending(row.nanos, row.n, row.sent) for row in rows},
            is_whole=not rows or rows[0].calls < self._most_calls,
        )

    def attempts_of_days(self, start: float, end: float) -> int:
        """Attempts of whole days of UTC, by sums of days.

        Args:
            start: Midnight, in seconds since the epoch.
            end: The same, not included.
        """
        teams = select(schema.teams.c.id)
        with read_transaction(self._engine, is_snapshot=True) as connection:
            return sum(
                connection.execute(
                    select(_sum(table.c.attempts)).where(
                        table.c.team.in_(teams),
                        table.c.day >= int(start) // _DAY_S,
                        table.c.day < int(end) // _DAY_S,
                    )
                ).scalar_one()
                for table in (rollup_days, rollup_pending)
            )

    def _calls(
        self,
        connection: Connection,
        scope: str,
        times: tuple[float, float],
        condition: ColumnElement[bool],
    ) -> Sequence[Row[Any]]:
        """Sums of the receipts of calls that arrived in this time, as far as they are wanted."""
        table, ids = schema.calls, schema.calls.c.call_id
        start, end = times
        read = (
            select(*(table.c[name] for name in _READ))
            .where(
                ids >= id_floor(start), ids < id_floor(end), table.c.team != IDLE_TEAM, condition
            )
            .order_by(ids)
            .limit(self._most_calls)
            .subquery("read")
        )
        query = _sums_by_name(scope, read)
        if query is None:
            return []
        is_sent = (read.c.final == 1) & (read.c.outcome != Outcome.REFUSED.value)
        query = query.add_columns(
            _sum(case((is_sent, 1), else_=0)).label("sent"),
            func.sum(func.count()).over().label("calls"),
        )
        return connection.execute(query).all()


def _ended_micros() -> ColumnElement[int]:
    """End of an attempt, in microseconds, as ``ended_at`` has it in seconds."""
    return schema.calls.c.started + schema.calls.c.duration


def ended_at(receipt: Receipt) -> float:
    """End of an attempt, in seconds since the epoch, as the ledger has it."""
    return seconds(micros(receipt.started) + micros(receipt.duration))


def _sums_by_name(scope: str, source: FromClause) -> Select[Any] | None:
    """Sums of a source by a scope's names, most dollars first; None where it knows none."""
    columns = source.c
    whose: ColumnElement[str] | None = {
        "organization": literal(EVERY),
        "team": schema.teams.c.name,
        "key": columns.key_id,
        "feature": columns.feature,
        "user": columns.get("user_hash"),
    }.get(scope)
    if whose is None:
        return None
    tokens = sum((func.coalesce(columns[bucket], 0) for bucket in schema.BUCKETS), literal(0))
    nanos = _sum(columns.cost_nanos).label("nanos")
    sums: list[ColumnElement[Any]] = [whose.label("whose"), nanos, _sum(tokens).label("n")]
    query = select(*sums).select_from(source)
    if scope == "team":
        query = query.join(schema.teams, schema.teams.c.id == columns.team)
    return query.group_by("whose").order_by(nanos.desc()).limit(MAX_NAMES)


def _sum(column: ColumnElement[Any]) -> ColumnElement[int]:
    return cast(func.coalesce(func.sum(column), 0), BigInteger)
