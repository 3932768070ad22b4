"""``thriftgate budgets``: the amounts spent and held of each budget now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
import typer
from rich.text import Text

from proxy.cli.terminal import Terminal, empty_table, feature_name
from proxy.records.amounts import cell, decimal_places
from proxy.records.receipt import dollars
from slo import window
from slo.budgets.budget import Budget, BudgetUnit

if TYPE_CHECKING:
    from proxy.services.budgets.counter_report import CounterRow
    from proxy.settings import Settings
    from proxy.store.store import Store
    from slo.policies.file import Policies

#: Counters of one budget that are shown, those of which most is spent.
MAX_COUNTERS_SHOWN: Final = 20
_FIGURES = ("limit", "spent", "held")
_UNKNOWN = "?"


class _Shown(NamedTuple):
    """A budget, its counters with most spent, and how many more there are."""

    budget: Budget
    rows: list[CounterRow]
    more: int


def budgets(
    terminal: Terminal,
    settings: Callable[[], Settings],
    policies: Callable[[Settings], Policies],
) -> Callable[..., None]:
    """The command that shows budgets."""

    def budgets_command(
        *,
        as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    ) -> None:
        """Show what is spent and held of each budget in the present window.

        Of a budget that everybody has one of, the twenty of which most is spent. With
        THRIFTGATE_REDIS_URL it is what the counters say. Without, each gateway counts for itself
        and what is spent is the ledger's word; ? is what it does not know. Users are shown by
        their keyed hash.
        """
        chosen = settings()
        promised = policies(chosen).budgets
        now = terminal.now()
        with terminal.store() as store:
            from proxy.store.errors import StoreError
            from proxy.store.sql.settings.stored_budgets import budgets_beside

            if chosen.policies is not None:
                promised = budgets_beside(
                    promised, [budget.budget for budget in store.budgets.all()]
                )
            if not promised and not as_json:
                terminal.say(
                    "There are no budgets. THRIFTGATE_POLICIES names the file they are in."
                )
                return
            try:
                shown = asyncio.run(_load_counters(promised, chosen, store, now))
            except StoreError as error:
                terminal.fail(f"The counters or the database cannot be reached: {error}")
        if as_json:
            spoken = msgspec.json.encode(
                {"budgets": [_budget_document(counters, now) for counters in shown]}
            )
            terminal.out.print(spoken.decode(), soft_wrap=True)
        else:
            _print_budgets(terminal, shown, now)

    return budgets_command


async def _load_counters(
    promised: Sequence[Budget], settings: Settings, opened: Store, now: float
) -> list[_Shown]:
    """Each budget with the figures of its counters, or of the ledger where these are not shared."""
    from proxy.services.budgets.accounts import LedgerAccounts
    from proxy.services.budgets.counter_report import all_counter_rows, ledger_rows, most_spent
    from proxy.services.budgets.counters import open_budget_store

    accounts, store = LedgerAccounts(opened.spendings), open_budget_store(settings, opened)
    try:
        shown = []
        for budget in promised:
            rows = ledger_rows(accounts, budget, now)
            if store.is_shared:
                rows = await all_counter_rows(store, budget, rows, now)
            shown.append(
                _Shown(
                    budget,
                    most_spent(rows, MAX_COUNTERS_SHOWN),
                    max(len(rows) - MAX_COUNTERS_SHOWN, 0),
                )
            )
        return shown
    finally:
        await store.aclose()


def _print_budgets(terminal: Terminal, shown: Sequence[_Shown], now: float) -> None:
    table = empty_table("budget", "scope", "of", "window", "hard", *_FIGURES, right=_FIGURES)
    rows = [(counters.budget, row) for counters in shown for row in counters.rows]
    money = [_amounts(budget, row) for budget, row in rows if budget.unit is BudgetUnit.USD]
    places = [decimal_places(amounts) for amounts in zip(*money, strict=True)]
    for counters in shown:
        for row in counters.rows:
            table.add_row(*map(Text, _cells(counters.budget, row, now, places)))
        if counters.more:
            table.add_row(
                counters.budget.name, counters.budget.scope, f"and {counters.more:,} more"
            )
    terminal.show(table)


def _cells(budget: Budget, row: CounterRow, now: float, places: Sequence[int]) -> tuple[str, ...]:
    """The cells of a row; ``places`` are the digits of each amount of dollars behind the point."""
    amounts = _amounts(budget, row)
    if budget.unit is BudgetUnit.USD:
        cells = [
            _UNKNOWN if amount is None else cell(amount, digits)
            for amount, digits in zip(amounts, places, strict=True)
        ]
    else:
        cells = [_UNKNOWN if amount is None else f"{amount:,}" for amount in amounts]
    return (
        budget.name,
        budget.scope,
        feature_name(row.whose) if row.whose.isprintable() else ascii(row.whose),
        window.window_name(budget.window, now),
        "yes" if budget.hard else "no",
        *cells,
    )


def _amounts(budget: Budget, row: CounterRow) -> tuple[int | None, ...]:
    return budget.limit, row.spent, row.held


def _budget_document(shown: _Shown, now: float) -> dict[str, Any]:
    """A budget for scripts; dollars are texts, as in the policies, and null is what is unknown."""
    budget = shown.budget
    rows = [
        {
            "of": row.whose,
            "spent": _exact_amount(budget, row.spent),
            "held": _exact_amount(budget, row.held),
        }
        for row in shown.rows
    ]
    return {
        "name": budget.name,
        "scope": budget.scope,
        "unit": budget.unit,
        "window": window.window_name(budget.window, now),
        "hard": budget.hard,
        "limit": _exact_amount(budget, budget.limit),
        "counters": rows,
        "more": shown.more,
    }


def _exact_amount(budget: Budget, amount: int | None) -> str | int | None:
    return dollars(amount) if budget.unit is BudgetUnit.USD and amount is not None else amount
