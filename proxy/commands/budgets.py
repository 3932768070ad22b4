"""``thriftgate budgets``: what is spent and held of each budget now."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
from rich.text import Text

from proxy.commands.terminal import Terminal, grid
from proxy.limits.reconcile import is_compared, levels, spent
from proxy.limits.standing import counters
from proxy.routes.relay import dollars
from proxy.settings import Settings
from proxy.store.reserving import StoreLost
from proxy.store.store import Store
from slo import window
from slo.budget import EVERY, Budget, Unit, counter
from slo.promises.file import Promises
from slo.reservations import Level

_FIGURES = ("limit", "spent", "held")
_UNKNOWN = "?"


class _Row(msgspec.Struct, frozen=True):
    """One counter of a budget; its figures are None where nobody can say."""

    budget: Budget
    whose: str
    spent: int | None
    held: int | None = None


def budgets(
    terminal: Terminal,
    settings: Callable[[], Settings],
    promises: Callable[[Settings], Promises],
) -> Callable[..., None]:
    """The command that shows budgets."""

    def budgets_command() -> None:
        """What is spent and held of each budget in the window of now.

        With THRIFTGATE_REDIS_URL it is what the counters say. Without, each gateway counts for
        itself and what is spent is the ledger's word; ? is what it does not know.
        """
        chosen = settings()
        promised = promises(chosen).budgets
        if not promised:
            terminal.say("There are no budgets. THRIFTGATE_PROMISES names the file they are in.")
            return
        with terminal.store() as store:
            try:
                rows = asyncio.run(_rows(promised, chosen, store, terminal.now()))
            except StoreLost as error:
                terminal.fail(f"The counters are away: {error}")
        table = grid("budget", "scope", "of", "window", "hard", *_FIGURES, right=_FIGURES)
        for row in rows:
            table.add_row(*map(Text, _cells(row, terminal.now())))
        terminal.out.print(table)

    return budgets_command


async def _rows(
    promised: Sequence[Budget], settings: Settings, opened: Store, now: float
) -> list[_Row]:
    rows = []
    for budget in promised:
        found = await spent(opened, budget, now)
        told = found if is_compared(budget) else dict.fromkeys(found)
        if budget.of != EVERY or budget.scope == "organization":
            told = {budget.of: 0 if is_compared(budget) else None} | told
        rows += [_Row(budget, whose, amount) for whose, amount in told.items()]
        if not told:
            rows.append(_Row(budget, EVERY, None))
    store = counters(settings, opened)
    try:
        if not store.is_shared:
            return rows
        names = [counter(row.budget, row.whose, now) for row in rows]
        said = await levels(store, names, now)
    finally:
        await store.aclose()
    return [_counted(row, level) for row, level in zip(rows, said, strict=True)]


def _counted(row: _Row, level: Level) -> _Row:
    """The row as its counter has it; one that stands for every name has none."""
    if row.whose == EVERY and row.budget.scope != "organization":
        return row
    return _Row(row.budget, row.whose, level.spent, level.held)


def _cells(row: _Row, now: float) -> tuple[str, ...]:
    budget = row.budget
    return (
        budget.name,
        budget.scope,
        row.whose or "(none)",
        window.name(budget.window, now),
        "yes" if budget.hard else "no",
        _said(budget, budget.limit),
        _said(budget, row.spent),
        _said(budget, row.held),
    )


def _said(budget: Budget, amount: int | None) -> str:
    if amount is None:
        return _UNKNOWN
    return f"${dollars(amount)}" if budget.unit is Unit.USD else f"{amount:,}"
