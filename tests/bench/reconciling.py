# ruff: noqa: T201 - a script prints its result
"""Times one comparison of budgets with a large ledger, on SQLite.

Each row is a set of budgets: seconds of the first look, which reads what is over of a month, and of
those after it. Usage: python -m tests.bench.reconciling [--rows 1000000]
"""

import argparse
import asyncio
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Final

from proxy.services.budgets.reconciliation import Reconciler
from proxy.store.redis.local_budget_store import LocalBudgetStore
from proxy.store.sql.database import write_transaction
from proxy.store.store import Store
from slo.budgets.budget import Budget, BudgetUnit
from slo.window import Window
from tests.bench import ledger

#: A day before the month's end, an hour before midnight.
NOW: Final = ledger.MONTH.bounds[1] - 25 * 3600.0
_USERS: Final = 5_000
_LOOKS: Final = 4


def budget(scope: str, window: Window, unit: BudgetUnit = BudgetUnit.USD) -> Budget:
    """A budget that everybody has one of."""
    name = f"{scope}-{window}-{unit}"
    return Budget(name=name, scope=scope, window=window, unit=unit, limit=10**12)


SETS: Final = {
    "a month in dollars, by team": [budget("team", Window.MONTH)],
    "the same by user": [budget("user", Window.MONTH)],
    "a day in dollars, by user": [budget("user", Window.DAY)],
    "requests of an hour and a minute, by team": [
        budget("team", window, BudgetUnit.REQUESTS) for window in (Window.HOUR, Window.MINUTE)
    ],
    "day and month in dollars and tokens, by four scopes": [
        budget(*each)
        for each in product(
            ("organization", "team", "key", "feature"),
            (Window.DAY, Window.MONTH),
            (BudgetUnit.USD, BudgetUnit.TOKENS),
        )
    ],
}


async def looks(opened: Store, budgets: list[Budget]) -> list[float]:
    """Seconds of each look, a minute apart."""
    took: list[float] = []
    reconciler = Reconciler(budgets, LocalBudgetStore(), opened, lambda: NOW + 60.0 * len(took))
    for index in range(_LOOKS):
        began = time.perf_counter()
        await reconciler.compare(at_once=not index)
        took.append(time.perf_counter() - began)
    return took


def main() -> None:
    """Build the ledger and print all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    ledger.MADE["user_hash"] = f"printf('%032x', n % {_USERS})"
    with tempfile.TemporaryDirectory() as folder:
        opened = Store.open(f"sqlite:///{folder}/ledger.db", Path(folder) / "journal")
        for number in range(ledger.TEAMS):
            opened.teams.create(f"team {number}", now=NOW)
        ledger.build(opened._engine, options.rows)
        with write_transaction(opened._engine) as connection:
            connection.exec_driver_sql("UPDATE teams SET id = 'team_' || substr(name, 6)")
        for label, budgets in SETS.items():
            first, *others = asyncio.run(looks(opened, budgets))
            print(f"{label}: {first:.2f} s at first, then {max(others):.2f} s")
        opened.close(5)


if __name__ == "__main__":
    main()
