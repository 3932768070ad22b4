"""Reconciling: counters that lack what the ledger knows are given it, and the drift is published.

A counter may lack something because its store was lost, or because it began after its budget's
window did. What the ledger knew a minute ago has been settled by now, or never will be; only what
is still lacking of that is added, once, whichever process does it. Nothing is ever taken off.

The ledger's rollups know dollars and tokens of the organization, teams, keys and features by the
quarter of an hour: budgets of requests, users, labels and minutes are not compared.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from proxy.store.reserving import Reserving, StoreLost
from proxy.store.spendings import Spending
from proxy.store.store import Store
from slo import window
from slo.budget import EVERY, Budget, Unit, counter
from slo.reservations import MOST, Level
from slo.window import Window

_log = logging.getLogger("thriftgate.budgets")

_EVERY: Final = 60.0
_NANOS: Final = 1_000_000_000
_QUARTER: Final = 900
#: Counters asked for at once.
_BATCH: Final = 200
_SCOPES: Final = frozenset({"organization", "team", "key", "feature"})


def is_compared(budget: Budget) -> bool:
    """Whether the ledger's rollups know what the budget counts."""
    return (
        budget.scope in _SCOPES
        and budget.unit is not Unit.REQUESTS
        and budget.window is not Window.MINUTE
    )


async def spent(opened: Store, budget: Budget, now: float) -> dict[str, int]:
    """What the ledger says was spent of a budget in the window of now, by whose.

    Of a minute it says who spent in its quarter of an hour, and too much.

    Raises:
        SQLAlchemyError: The database is away.
    """
    start = window.opens(budget.window, now) // _QUARTER * _QUARTER
    end = window.closes(budget.window, now)
    found = await opened.ask(opened.spendings.of, budget.scope, start, end)
    return {
        whose: _amount(budget, each)
        for whose, each in found.items()
        if budget.of == whose or (budget.of == EVERY and whose)
    }


async def levels(store: Reserving, counters: list[str], now: float) -> list[Level]:
    """What the counters say, asked in batches.

    Raises:
        StoreLost: They are out of reach.
    """
    found: list[Level] = []
    for start in range(0, len(counters), _BATCH):
        found += await store.levels(counters[start : start + _BATCH], now)
    return found


class Reconciler(Collector):
    """Compares every minute.

    Args:
        budgets: All there are.
        counters: Where they are counted.
        opened: The store with the ledger.
        now: Seconds since the epoch.

    Attributes:
        drifts: By budget, what the ledger knows and counters lack; below 0 where the ledger is
            behind.
    """

    def __init__(
        self,
        budgets: Collection[Budget],
        counters: Reserving,
        opened: Store,
        now: Callable[[], float],
    ) -> None:
        self._budgets = [budget for budget in budgets if is_compared(budget)]
        self._counters = counters
        self._opened = opened
        self._now = now
        self._before: dict[str, int] = {}
        self.drifts: dict[Budget, int] = {}

    async def begin(self) -> None:
        """Give counters that only this process has, and that begin at 0, what the ledger knows."""
        await self._looked(at_once=not self._counters.is_shared)

    async def run(self) -> None:
        """Compare every minute, for ever."""
        while True:
            await asyncio.sleep(_EVERY)
            await self._looked(at_once=False)

    async def look(self, *, at_once: bool = False) -> None:
        """Compare now.

        Args:
            at_once: Whether nothing that the ledger knows can be on its way to the counters.

        Raises:
            SQLAlchemyError: The database is away.
            StoreLost: The counters are.
        """
        now, known = self._now(), dict[str, int]()
        for budget in self._budgets:
            found = await spent(self._opened, budget, now)
            named = {counter(budget, whose, now): amount for whose, amount in found.items()}
            said = await levels(self._counters, list(named), now)
            drift = 0
            for (name, amount), level in zip(named.items(), said, strict=True):
                sure = amount if at_once else min(self._before.get(name, 0), amount)
                drift += amount - level.spent
                if sure > level.spent:
                    await self._mend(name, sure - level.spent, now)
            self.drifts[budget] = drift
            known |= named
        self._before = known

    def collect(self) -> Iterator[Metric]:
        """The drift, as Prometheus' own types."""
        drift = GaugeMetricFamily(
            "thriftgate_budget_drift",
            "What the ledger knows and the budget's counters lack, in its unit, when last compared",
            labels=["budget", "unit"],
        )
        for budget, amount in self.drifts.items():
            scale = _NANOS if budget.unit is Unit.USD else 1
            drift.add_metric([budget.name, budget.unit.value], amount / scale)
        yield drift

    async def _looked(self, *, at_once: bool) -> None:
        try:
            await self.look(at_once=at_once)
        except (SQLAlchemyError, StoreLost) as error:
            _log.warning("Budgets were not compared with the ledger: %s", error)

    async def _mend(self, name: str, amount: int, now: float) -> None:
        once = f"reconcile:{window.name(Window.MINUTE, now)}:{name}"
        if await self._counters.settle(once, {name: min(amount, MOST)}, now):
            _log.warning("The counter %s lacked %d of what the ledger knows", name, amount)


def _amount(budget: Budget, spending: Spending) -> int:
    return spending.nanos if budget.unit is Unit.USD else spending.tokens
