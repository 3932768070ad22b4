"""Costs and earnings of the cache marks of each feature, shared by all gateways."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, Row, case, func, select, text

from dashboards.reports import SpendFilter
from proxy.records.feature_mode import LayoutScope
from proxy.records.mark_account import (
    PLACES,
    MarkAccountChange,
    MarkTotals,
    StoredMarkAccount,
    TeamLoan,
)
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rollups import rollup_tables
from proxy.store.sql.timestamps import micros

_SUMS: Final = ("balance", "direct", "staked", "earned", "calls")
_NAMES: Final = ("team", "feature", "family", *_SUMS, *PLACES, "halved", "updated")
_ADDED: Final = ", ".join(f"{name} = mark_accounts.{name} + excluded.{name}" for name in _SUMS)
_DECAYED: Final = ", ".join(
    f"{name} = CAST(mark_accounts.{name} * :decay AS BIGINT) + excluded.{name}" for name in PLACES
)
# In one step, so that gateways that count at once lose nothing of each other.
_ADD: Final = text(
    f"INSERT INTO mark_accounts ({', '.join(_NAMES)})"  # noqa: S608 - names of columns
    f" VALUES ({', '.join(f':{name}' for name in _NAMES)})"
    f" ON CONFLICT (team, feature, family) DO UPDATE SET {_ADDED}, {_DECAYED},"
    f" updated = excluded.updated RETURNING {', '.join(_NAMES)}"
)
#: Seconds between two rounds that make losses smaller, and what is left of them: half in a day.
HALVING_INTERVAL_S: Final = 3_600.0
_HALVE: Final = text(
    "UPDATE mark_accounts SET balance = balance * 9715 / 10000, halved = :now"
    # A clock that ran ahead and was set back left times that are still to come.
    " WHERE balance < 0 AND (halved <= :before OR halved > :after)"
)
_DELETE: Final = text("DELETE FROM mark_accounts WHERE updated < :before")
_LEND: Final = text(
    "INSERT INTO team_losses (team, day, lent, updated) VALUES (:team, :day, :more, :updated)"
    " ON CONFLICT (team, day) DO UPDATE SET lent = team_losses.lent + excluded.lent,"
    " updated = excluded.updated RETURNING lent"
)
_TAKE_BACK: Final = text(
    "UPDATE team_losses SET lent = lent - :excess WHERE team = :team AND day = :day"
)
_DELETE_DAYS: Final = text("DELETE FROM team_losses WHERE updated < :before")


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
        table = rollup_tables.mark_accounts
        query = select(*(table.c[name] for name in _NAMES)).where(table.c.updated >= micros(since))
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(table.c.updated.desc()).limit(most))
            return [_account(row) for row in rows]

    def totals(self, only: SpendFilter, most: int) -> MarkTotals:
        """The sums of the accounts of these teams and features, and those that staked most.

        Args:
            only: Teams and features that count; models, keys and routes are not told apart.
        """
        table = rollup_tables.mark_accounts.c
        lost = case((table.balance < 0, -table.balance), else_=0)
        sums = select(
            *(func.coalesce(func.sum(column), 0) for column in (table.staked, table.earned, lost)),
            func.count(),
        ).where(*_conditions(only))
        query = select(*(table[name] for name in _NAMES)).where(*_conditions(only))
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
        before, after = (micros(now + away * HALVING_INTERVAL_S) for away in (-1, 1))
        with write_transaction(self._engine) as connection:
            connection.execute(_HALVE, {"now": micros(now), "before": before, "after": after})

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
        table = rollup_tables.team_losses.c
        query = select(table.team, table.lent).where(table.updated >= micros(since))
        with read_transaction(self._engine) as connection:
            return {row.team: row.lent for row in connection.execute(query.where(table.day == day))}

    def delete_unused(self, before: float) -> None:
        """Delete the accounts and team days that nobody counted for since then."""
        with write_transaction(self._engine) as connection:
            for statement in (_DELETE, _DELETE_DAYS):
                connection.execute(statement, {"before": micros(before)})


def _lend(connection: Connection, loan: TeamLoan, limit: int, now: float) -> int:
    place = {"team": loan.team, "day": loan.day}
    # The row is locked from here on, so that gateways which ask at once wait for each other.
    values = {**place, "more": loan.more, "updated": micros(now)}
    lent: int = connection.execute(_LEND, values).scalar_one()
    excess = min(max(0, loan.more - loan.owed), max(0, lent - limit))
    if excess:
        connection.execute(_TAKE_BACK, {**place, "excess": excess})
    return loan.more - excess


def _conditions(only: SpendFilter) -> list[ColumnElement[bool]]:
    table = rollup_tables.mark_accounts.c
    filters = {"team": only.counted_teams, "feature": only.values.get("feature")}
    return [
        table[name].in_(sorted(values)) for name, values in filters.items() if values is not None
    ]


def _values(change: MarkAccountChange, now: float) -> dict[str, Any]:
    account, at = change.account, micros(now)
    return {
        "team": account.scope.team,
        "feature": account.scope.feature,
        "family": account.scope.family,
        **{name: getattr(account, name) for name in _SUMS},
        **dict(zip(PLACES, account.places, strict=True)),
        "decay": change.decay,
        "halved": at,
        "updated": at,
    }


def _account(row: Row[Any]) -> StoredMarkAccount:
    return StoredMarkAccount(
        scope=LayoutScope(row.team, row.feature, row.family),
        **{name: getattr(row, name) for name in _SUMS},
        places=tuple(getattr(row, name) for name in PLACES),
    )
