"""A ledger, counters that can be lost, and who compares them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from proxy.records.receipt import Receipt
from proxy.services.budgets.reconciliation import Reconciler
from proxy.store.ports import CountersCondition
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.budgets.budget import Budget
from slo.budgets.counter import CounterClaim, CounterLevel
from tests.fakes.admission_harness import NOW, LosableBudgetStore, budget
from tests.fakes.clock import ticks
from tests.fakes.databases import migrated_sqlite
from tests.fakes.receipts import a_receipt

COUNTER = "b/team/usd/2026-09-21/acme"


class ForgetfulBudgetStore(LosableBudgetStore):
    """Counters of all processes, which can be away, and forget everything.

    Attributes:
        is_shared: Whether they say that they are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_shared = False

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        await self._found()
        return await super().levels(counters, now)

    async def raise_spent(self, amounts: Mapping[str, int], now: float) -> list[int]:
        await self._found()
        return await super().raise_spent(amounts, now)

    async def begin_checkpoint(self, now: float, within: float) -> int:
        await self._found()
        return await super().begin_checkpoint(now, within)

    async def restore(self, amounts: Mapping[str, int], checkpoint: int, now: float) -> list[int]:
        await self._found()
        return await super().restore(amounts, checkpoint, now)

    async def condition(self, now: float) -> CountersCondition:
        if self.is_shared:
            await self._found()
        return await super().condition(now)

    async def turn(self, before: CountersCondition, after: CountersCondition, now: float) -> bool:
        if self.is_shared:
            await self._found()
        return await super().change_condition(before, after, now)

    def spent_in_store(self, counter: str) -> int:
        """Return what was spent, though they are away."""
        return self._reservations.levels([counter], 0.0)[0].spent

    async def passes(self, name: str) -> bool:
        """True if they are whole, to a reservation that asks for it."""
        claim = CounterClaim("passing", 0, 1, hard=True, ends=NOW)
        return await self.reserve(name, [claim], NOW, NOW, only_whole=True) is not None


class ReconciliationHarness:
    """A ledger, counters, and who compares them."""

    def __init__(self, folder: Path, *budgets: Budget) -> None:
        self.store = Store.open(migrated_sqlite(folder / "thriftgate.db"), folder / "journal")
        self.team = self.store.teams.create("acme", now=NOW).id
        self.counters = ForgetfulBudgetStore()
        self.now = NOW
        self.reconciler = Reconciler(
            budgets or (budget(),), self.counters, self.store, lambda: self.now
        )

    def follow_loop_time(self) -> None:
        """Let its time be the running loop's from now on."""
        began, loop = self.now - ticks(), asyncio.get_running_loop()
        self.reconciler._now = lambda: began + loop.time()
        self.store.ask = self._ask  # type: ignore[assignment,method-assign]

    async def start(self, *, is_shared: bool = False) -> None:
        """Compare once in the loop's time, and then again and again until the loop ends."""
        self.counters.is_shared = is_shared
        self.follow_loop_time()
        await self.reconciler.begin()
        self.run()

    def run(self) -> None:
        self._running = asyncio.ensure_future(self.reconciler.run())

    async def _ask(self, question: Callable[..., Any], *args: Any) -> Any:
        return question(*args)

    def keep(self, *costs: int) -> None:
        inserter(self.store._engine)(
            [self.receipt(number, cost) for number, cost in enumerate(costs)]
        )

    def receipt(self, number: int, cost: int) -> Receipt:
        """The receipt of an attempt that ended so many seconds after a few before the beginning."""
        fields = {"team": self.team, "cost_nanos": cost, "feature": "chat"}
        return a_receipt(number, started=NOW + number - 10, **fields)

    async def level(self, counter: str = COUNTER) -> CounterLevel:
        (level,) = await self.counters.levels([counter], self.now)
        return level

    def page(self) -> str:
        registry = CollectorRegistry()
        registry.register(self.reconciler)
        return generate_latest(registry).decode()
