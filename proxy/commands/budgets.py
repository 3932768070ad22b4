"""``thriftgate budgets``: what is spent and held of each budget now."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.text import Text

from proxy.commands.terminal import Terminal, grid, named
from proxy.limits.accounts import Accounts, is_compared
from proxy.limits.reconcile import levels
from proxy.limits.standing import counters
from proxy.routes.relay import dollars
from proxy.settings import Settings
from proxy.store.redis_reserving import Shared
from proxy.store.reserving import StoreLost
from proxy.store.store import Store
from slo import window
from slo.budget import EVERY, Budget, Unit, counter
from slo.promises.file import Promises

#: Counters of one budget that are shown, those of which most is spent.
MOST: Final = 20
#: Counters of one budget that are looked at.
_LOOKED_AT: Final = 5_000
_FIGURES = ("limit", "spent", "held")
_UNKNOWN = "?"


class _Row(msgspec.Struct, frozen=True):
    """One counter of a budget; its figures are None where nobody can say."""

    whose: str
    spent: int | None
    held: int | None = None


class _Shown(msgspec.Struct, frozen=True):
    """A budget, its counters with most spent, and how many more there are."""

    budget: Budget
    rows: list[_Row]
    more: int


def budgets(
    terminal: Terminal,
    settings: Callable[[], Settings],
    promises: Callable[[Settings], Promises],
) -> Callable[..., None]:
    """The command that shows budgets."""

    def budgets_command(
        *,
        as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    ) -> None:
        """What is spent and held of each budget in the window of now.

        Of a budget that everybody has one of, the twenty of which most is spent. With
        THRIFTGATE_REDIS_URL it is what the counters say. Without, each gateway counts for itself
        and what is spent is the ledger's word; ? is what it does not know. Users are shown by
        their keyed hash.
        """
        chosen = settings()
        promised = promises(chosen).budgets
        now = terminal.now()
        if not promised and not as_json:
            terminal.say("There are no budgets. THRIFTGATE_PROMISES names the file they are in.")
            return
        with terminal.store() as store:
            try:
                shown = asyncio.run(_shown(promised, chosen, store, now))
            except StoreLost as error:
                terminal.fail(f"The counters are away: {error}")
        if as_json:
            spoken = msgspec.json.encode({"budgets": [_json(each, now) for each in shown]})
            terminal.out.print(spoken.decode(), soft_wrap=True)
        else:
            _tell(terminal, shown, now)

    return budgets_command


async def _shown(
    promised: Sequence[Budget], settings: Settings, opened: Store, now: float
) -> list[_Shown]:
    """Each budget as its counters have it, or the ledger where counters are nobody's to ask."""
    accounts, store = Accounts(opened.spendings), counters(settings, opened)
    try:
        found = []
        for budget in promised:
            rows = _known(accounts, budget, now)
            if isinstance(store, Shared):
                rows = await _counted(store, budget, rows, now)
            rows.sort(key=lambda row: (-(row.spent or 0), -(row.held or 0), row.whose))
            found.append(_Shown(budget, rows[:MOST], max(len(rows) - MOST, 0)))
        return found
    finally:
        await store.aclose()


def _known(accounts: Accounts, budget: Budget, now: float) -> list[_Row]:
    """What the ledger knows; where it knows nothing of anybody, one row that says so."""
    if not is_compared(budget):
        return [_Row(budget.of, None)]
    account = accounts.of(budget, now)
    told: dict[str, int | None] = {**account.by}
    if _is_one(budget):
        told.setdefault(budget.of, 0)
    if not account.is_whole:
        told = dict.fromkeys(told)
    return [_Row(whose, amount) for whose, amount in told.items()] or [_Row(EVERY, None)]


async def _counted(store: Shared, budget: Budget, rows: list[_Row], now: float) -> list[_Row]:
    """What the counters say of those that the ledger knows, and of those that it does not."""
    start = counter(budget, "", now)
    names = {
        counter(budget, row.whose, now): row.whose
        for row in rows
        if row.whose != EVERY or budget.scope == "organization"
    }
    if not _is_one(budget):
        for name in await store.named(start, _LOOKED_AT):
            names.setdefault(name, name.removeprefix(start))
    said = await levels(store, list(names), now)
    counted = zip(names.values(), said, strict=True)
    return [_Row(whose, level.spent, level.held) for whose, level in counted] or rows


def _is_one(budget: Budget) -> bool:
    """Whether the budget has one counter, and not one for everybody."""
    return budget.of != EVERY or budget.scope == "organization"


def _tell(terminal: Terminal, shown: Sequence[_Shown], now: float) -> None:
    table = grid("budget", "scope", "of", "window", "hard", *_FIGURES, right=_FIGURES)
    for each in shown:
        for row in each.rows:
            table.add_row(*map(Text, _cells(each.budget, row, now)))
        if each.more:
            table.add_row(each.budget.name, each.budget.scope, f"and {each.more:,} more")
    terminal.show(table)


def _cells(budget: Budget, row: _Row, now: float) -> tuple[str, ...]:
    return (
        budget.name,
        budget.scope,
        named(row.whose) if row.whose.isprintable() else ascii(row.whose),
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


def _json(shown: _Shown, now: float) -> dict[str, Any]:
    """A budget for scripts; dollars are texts, as in the promises, and null is what is unknown."""
    budget = shown.budget
    rows = [
        {
            "of": row.whose,
            "spent": _exact(budget, row.spent),
            "held": _exact(budget, row.held),
        }
        for row in shown.rows
    ]
    return {
        "name": budget.name,
        "scope": budget.scope,
        "unit": budget.unit,
        "window": window.name(budget.window, now),
        "hard": budget.hard,
        "limit": _exact(budget, budget.limit),
        "counters": rows,
        "more": shown.more,
    }


def _exact(budget: Budget, amount: int | None) -> str | int | None:
    return dollars(amount) if budget.unit is Unit.USD and amount is not None else amount
