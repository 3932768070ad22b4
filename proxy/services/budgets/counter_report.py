"""Reports a budget's counters, by the ledger and by the shared store."""

from heapq import nlargest, nsmallest
from typing import Final

import msgspec

from proxy.services.budgets.accounts import LedgerAccounts, is_compared
from proxy.store.ports import BudgetStore
from slo.budgets.budget import EVERY, Budget, counter_key
from slo.budgets.counter import CounterLevel

#: Counters of one budget that are looked at.
_MAX_COUNTERS: Final = 5_000
#: Counters asked for at once.
_COUNTERS_PER_BATCH: Final = 100


class CounterRow(msgspec.Struct, frozen=True):
    """One counter of a budget; its figures are None where they are unknown."""

    whose: str
    spent: int | None
    held: int | None = None


def unknown_rows(budget: Budget) -> list[CounterRow]:
    """The row of a budget of which nothing is known."""
    return [CounterRow(budget.of, None)]


def ledger_rows(
    accounts: LedgerAccounts, budget: Budget, now: float, limit: int | None = None
) -> list[CounterRow]:
    """Rows by the ledger; one row without figures where it knows nothing; blocks.

    Args:
        limit: Rows, those of which it knows most to be spent; None for all.

    Raises:
        StoreError: The database is away.
    """
    if not is_compared(budget):
        return unknown_rows(budget)
    account = accounts.account(budget, now)
    amounts: dict[str, int] = {**account.by}
    if _is_one(budget):
        amounts.setdefault(budget.of, 0)
    if limit is not None and len(amounts) > limit:
        amounts = dict(nlargest(limit, amounts.items(), key=lambda item: item[1]))
    is_whole = account.is_whole
    rows = [CounterRow(whose, amount if is_whole else None) for whose, amount in amounts.items()]
    return rows or unknown_rows(budget)


async def counter_rows(
    store: BudgetStore, budget: Budget, rows: list[CounterRow], now: float
) -> list[CounterRow]:
    """The same rows with the figures of the store; unchanged where they name no one.

    Raises:
        StoreError: The counters are out of reach.
    """
    return await _read_rows(store, _names(budget, rows, now), now) or rows


async def all_counter_rows(
    store: BudgetStore, budget: Budget, rows: list[CounterRow], now: float
) -> list[CounterRow]:
    """The same rows with the figures of the store, and rows of those that the ledger does not know.

    Counters that are this process's own cannot be asked whom they know besides. Of Redis all keys
    are looked at: for people who wait, not beside calls.

    Raises:
        StoreError: The counters are out of reach.
    """
    names = _names(budget, rows, now)
    if not store.is_shared:
        return await _read_rows(store, names, now) or rows
    from proxy.store.redis.budget_store import RedisBudgetStore  # noqa: PLC0415 - an extra
    from proxy.store.redis.leased_counters import LeasedCounters  # noqa: PLC0415 - the same

    if isinstance(store, RedisBudgetStore | LeasedCounters) and not _is_one(budget):
        start = counter_key(budget, "", now)
        for name in await store.counters_from(start, _MAX_COUNTERS):
            names.setdefault(name, name.removeprefix(start))
    return await _read_rows(store, names, now) or rows


async def levels(store: BudgetStore, counters: list[str], now: float) -> list[CounterLevel]:
    """Levels of the counters, asked in batches.

    Raises:
        StoreError: They are out of reach.
    """
    counter_levels: list[CounterLevel] = []
    for start in range(0, len(counters), _COUNTERS_PER_BATCH):
        counter_levels += await store.levels(counters[start : start + _COUNTERS_PER_BATCH], now)
    return counter_levels


def most_spent(rows: list[CounterRow], limit: int) -> list[CounterRow]:
    """The rows of which most is spent, in that order."""
    return nsmallest(limit, rows, key=lambda row: (-(row.spent or 0), -(row.held or 0), row.whose))


def _names(budget: Budget, rows: list[CounterRow], now: float) -> dict[str, str]:
    """The subject of each counter, by the counter's name."""
    return {
        counter_key(budget, row.whose, now): row.whose
        for row in rows
        if row.whose != EVERY or budget.scope == "organization"
    }


async def _read_rows(store: BudgetStore, names: dict[str, str], now: float) -> list[CounterRow]:
    """Rows of the counters with these names."""
    pairs = zip(names.values(), await levels(store, list(names), now), strict=True)
    return [CounterRow(whose, level.spent, level.held) for whose, level in pairs]


def _is_one(budget: Budget) -> bool:
    """True if the budget has one counter, and not one for everybody."""
    return budget.of != EVERY or budget.scope == "organization"
