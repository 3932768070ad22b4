"""Costs and earnings of the cache marks of each feature, shared by all gateways."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Engine, Row, case, delete, func, select, update

from dashboards.reports import SpendFilter
from proxy.records.feature_mode import LayoutScope
from proxy.records.mark_account import (
    PLACES,
    MarkAccountChange,
    MarkTotals,
    StoredMarkAccount,
    TeamLoan,
)
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import upsert

_SUMS: Final = ("balance", "direct", "staked", "earned", "calls")
_ADDED: Final = ", ".join(f"{name} = mark_accounts.{name} + excluded.{name}" for name in _SUMS)
_DECAYED: Final = ", ".join(
    f"{name} = CAST(mark_accounts.{name} * :decay AS BIGINT) + excluded.{name}" for name in PLACES
)
# In one step, so that gateways that count at once lose nothing of each other.
_ADD: Final = upsert(
    schema.mark_accounts,
    f"DO UPDATE SET {_ADDED}, {_DECAYED}, updated = excluded.updated RETURNING *",
)
#: Seconds between two rounds that make losses smaller.
HALVING_INTERVAL_S: Final = 3_600.0
_LEND: Final = upsert(
    schema.team_losses,
    "DO UPDATE SET lent = team_losses.lent + excluded.lent, updated = excluded.updated"
    " RETURNING lent",
)


class MarkAccounts:
    """The accounts in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, changes: Sequence[MarkAccountChange], now: float) -> list[StoredMarkAccount]:
        """Add what one process counted; returns these accounts as they are now."""
        with write_transaction(self._engine) as connection:
            return [
                _account(connection.execute(_ADD, _values(change, now)).one())
                for change in sorted(changes, key=lambda change: change.account.scope)
            ]

    def updated_since(self, since: float, most: int) -> list[StoredMarkAccount]:
        """The accounts that any gateway counted for since then, the latest first."""
        table = schema.mark_accounts
        query = select(table).where(table.c.updated >= since)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(table.c.updated.desc()).limit(most))
            return [_account(row) for row in rows]

    def totals(self, only: SpendFilter, most: int) -> MarkTotals:
        """The sums of the accounts of these teams and features, and those that staked most.

        Args:
            only: Teams and features that count; models, keys and routes are not told apart.
        """
        table = schema.mark_accounts.c
        lost = case((table.balance < 0, -table.balance), else_=0)
        sums = select(
            *(func.coalesce(func.sum(column), 0) for column in (table.staked, table.earned, lost)),
            func.count(),
        ).where(*_conditions(only))
        query = select(schema.mark_accounts).where(*_conditions(only))
        order = (table.staked.desc(), table.team, table.feature, table.family)
        with read_transaction(self._engine) as connection:
            staked, earned, lost_nanos, accounts = map(int, connection.execute(sums).one())
            rows = connection.execute(query.order_by(*order).limit(most))
            return MarkTotals(
                staked=staked,
                earned=earned,
                lost=lost_nanos,
                accounts=accounts,
                largest=tuple(map(_account, rows)),
            )

    def halve_losses(self, now: float) -> None:
        """Make losses smaller that were not within the hour, so that they are half in a day."""
        table = schema.mark_accounts.c
        # A clock that ran ahead and was set back left times that are still to come.
        is_due = (table.halved <= now - HALVING_INTERVAL_S) | (
            table.halved > now + HALVING_INTERVAL_S
        )
        halved = table.balance * 9_715 // 10_000  # 24 times of it are a half
        change = update(schema.mark_accounts).where(table.balance < 0, is_due)
        with write_transaction(self._engine) as connection:
            connection.execute(change.values(balance=halved, halved=now))

    def lend(self, loans: Sequence[TeamLoan], limit: int, now: float) -> list[int]:
        """Lend what processes may lose of their teams; returns how much of each they have.

        Args:
            loans: Changes asked for, one of a team; what is lost already is counted in any case.
            limit: Nano-dollars of a team and day that all processes have together.
        """
        # All lock rows in one order, or two gateways may each wait for a row of the other's.
        ordered = sorted(loans, key=lambda loan: loan.team)
        with write_transaction(self._engine) as connection:
            lent = {loan.team: _lend(connection, loan, limit, now) for loan in ordered}
        return [lent[loan.team] for loan in loans]

    def lent_since(self, since: float, day: int) -> dict[str, int]:
        """Amounts lent of each team of a day for which any process asked since then."""
        table = schema.team_losses.c
        query = select(table.team, table.lent).where(table.updated >= since)
        with read_transaction(self._engine) as connection:
            return {row.team: row.lent for row in connection.execute(query.where(table.day == day))}

    def delete_unused(self, before: float) -> None:
        """Delete the accounts and team days that nobody counted for since then."""
        with write_transaction(self._engine) as connection:
            for table in (schema.mark_accounts, schema.team_losses):
                connection.execute(delete(table).where(table.c.updated < before))


def _lend(connection: Connection, loan: TeamLoan, limit: int, now: float) -> int:
    table = schema.team_losses
    # The row is locked from here on, so that gateways which ask at once wait for each other.
    values = {"team": loan.team, "day": loan.day, "lent": loan.more, "updated": now}
    lent: int = connection.execute(_LEND, values).scalar_one()
    excess = min(max(0, loan.more - loan.owed), max(0, lent - limit))
    if excess:
        row = (table.c.team == loan.team) & (table.c.day == loan.day)
        connection.execute(update(table).where(row).values(lent=table.c.lent - excess))
    return loan.more - excess


def _conditions(only: SpendFilter) -> list[ColumnElement[bool]]:
    table = schema.mark_accounts.c
    filters = {"team": only.counted_teams, "feature": only.values.get("feature")}
    return [
        table[name].in_(sorted(values)) for name, values in filters.items() if values is not None
    ]


def _values(change: MarkAccountChange, now: float) -> dict[str, Any]:
    account = change.account
    return {
        **msgspec.structs.asdict(account.scope),
        **{name: getattr(account, name) for name in _SUMS},
        **dict(zip(PLACES, account.places, strict=True)),
        "decay": change.decay,
        "halved": now,
        "updated": now,
    }


def _account(row: Row[Any]) -> StoredMarkAccount:
    return StoredMarkAccount(
        scope=LayoutScope(row.team, row.feature, row.family),
        **{name: getattr(row, name) for name in _SUMS},
        places=tuple(getattr(row, name) for name in PLACES),
    )
