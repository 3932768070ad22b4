"""What is told of a budget's counters: the ledger's word, and theirs where they can be asked."""

from typing import Final

import msgspec

from proxy.limits.accounts import Accounts, is_compared
from proxy.limits.reconcile import levels
from proxy.store.redis_reserving import Shared
from proxy.store.reserving import Reserving
from slo.budget import EVERY, Budget, counter

#: Counters of one budget that are looked at.
_LOOKED_AT: Final = 5_000


class Row(msgspec.Struct, frozen=True):
    """One counter of a budget; its figures are None where nobody can say."""

    whose: str
    spent: int | None
    held: int | None = None


def known(accounts: Accounts, budget: Budget, now: float) -> list[Row]:
    """What the ledger knows; where it knows nothing of anybody, one row that says so; blocks.

    Raises:
        SQLAlchemyError: The database is away.
    """
    if not is_compared(budget):
        return [Row(budget.of, None)]
    account = accounts.of(budget, now)
    told: dict[str, int | None] = {**account.by}
    if _is_one(budget):
        told.setdefault(budget.of, 0)
    if not account.is_whole:
        told = dict.fromkeys(told)
    return [Row(whose, amount) for whose, amount in told.items()] or [Row(EVERY, None)]


async def counted(store: Reserving, budget: Budget, rows: list[Row], now: float) -> list[Row]:
    """What the counters say of those that the ledger knows, and of those that it does not.

    Counters that are this process's own cannot be asked whom they know besides.

    Raises:
        StoreLost: The counters are out of reach.
    """
    start = counter(budget, "", now)
    names = {
        counter(budget, row.whose, now): row.whose
        for row in rows
        if row.whose != EVERY or budget.scope == "organization"
    }
    if isinstance(store, Shared) and not _is_one(budget):
        for name in await store.named(start, _LOOKED_AT):
            names.setdefault(name, name.removeprefix(start))
    said = await levels(store, list(names), now)
    found = zip(names.values(), said, strict=True)
    return [Row(whose, level.spent, level.held) for whose, level in found] or rows


def most_spent(rows: list[Row], most: int) -> list[Row]:
    """The rows of which most is spent, in that order."""
    return sorted(rows, key=lambda row: (-(row.spent or 0), -(row.held or 0), row.whose))[:most]


def _is_one(budget: Budget) -> bool:
    """Whether the budget has one counter, and not one for everybody."""
    return budget.of != EVERY or budget.scope == "organization"
