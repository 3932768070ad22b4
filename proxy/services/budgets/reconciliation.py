"""Reconciles budget counters with the ledger, and publishes the drift.

A counter may lack amounts because its store was lost, or because it began after its budget's window
did. The ledger's sum of a while ago has been settled since, or never will be, so no less than that
was spent. Counters that are whole are never lowered::

    counters    here ────────────── every minute ──────────── compare
                lost, and away ──── at once, every SETTLED ── read the ledger
                back, or empty ──── at once ───────────────── compare
                  away for long, or empty ─────────────────── begin a checkpoint
                                    SETTLED later ─────────── restore
                  empty ─────────── then ──────────────────── mark them as whole

A comparison alone leaves a lost counter behind by what was settled just before, as long as calls go
on. A restore does not. A checkpoint is a second on the clocks of receipts: what is settled for
attempts that ended after it is counted separately. Once the ledger has all attempts that ended
before it, a counter is their sum and the separate count, whatever was on its way. Amounts are set
or raised, never added, so it does not matter how many processes do it.

The counters carry a mark, which is lost with them. Without it, the ledger's sums are put in at
once, and only a restore makes the counters count as whole; until then most hard budgets treat them
as unreachable (``proxy.services.budgets.admission``). If a process starts without a mark, or is the
only one, nothing is on its way, and its first comparison marks them as whole. The ledger's part is
in ``proxy.services.budgets.accounts``.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from prometheus_client import Metric
from prometheus_client.registry import Collector

from proxy.services.budgets.accounts import (
    SETTLED_AFTER_S,
    LedgerLooks,
    LedgerReading,
    amounts_of,
    is_compared,
)
from proxy.services.budgets.budget_metrics import BudgetLevel, level_metrics
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore, CountersCondition
from proxy.store.store import Store
from slo import alert
from slo.budgets.budget import Budget
from slo.budgets.reservations import CHECKPOINT_TTL_S

_log = logging.getLogger("thriftgate.budgets")

_COMPARE_INTERVAL_S: Final = 60.0
#: Seconds between two looks whether the counters are there.
_WATCH_INTERVAL_S: Final = 0.25
#: Counters asked for at once.
_COUNTERS_PER_BATCH: Final = 100
#: Seconds between two times that the mark is renewed; it lasts for several.
_RENEW_INTERVAL_S: Final = 5.0
#: Seconds after which counters that could not be made whole are looked at again.
_RETRY_DELAY_S: Final = 1.0
#: Seconds after a checkpoint at which the ledger knows all that ended before it. It is up to one
#: second ahead of the look that begins it.
_LEDGER_DELAY_S: Final = SETTLED_AFTER_S - 0.5
#: Seconds after which counters that are away miss something: until then it is said to them again.
_OUTAGE_LOSES_AFTER_S: Final = 5.0
#: Seconds for which processes share a checkpoint that one of them began.
_CHECKPOINT_SHARED_S: Final = 5.0
#: Seconds that the ledger gets to take up what this process has written down for it.
_FLUSH_TIMEOUT_S: Final = 5.0
_LACKING: Final = (CountersCondition.EMPTY, CountersCondition.REPAIRING)


class _Behind(Exception):
    """The ledger does not know yet all that ended before the checkpoint."""


class Reconciler(Collector):
    """Compares every minute, and when counters come back.

    Attributes:
        levels: By budget, as last compared. A budget of which the ledger holds more than one look
            reads is left out.
    """

    def __init__(
        self,
        budgets: Collection[Budget],
        counters: BudgetStore,
        opened: Store,
        now: Callable[[], float],
    ) -> None:
        self._budgets: list[Budget] = []
        self.levels: dict[Budget, BudgetLevel] = {}
        self.update(budgets)
        self._counters = counters
        self._opened = opened
        self._looks = LedgerLooks(opened.spendings)
        self._now = now
        self._is_away = False
        self._is_lacking = False
        self._recovers = False
        self._checkpoint: int | None = None
        self._away_since = 0.0
        self._shares = _CHECKPOINT_SHARED_S

    def update(self, budgets: Collection[Budget]) -> None:
        """Compare these budgets from the next look on."""
        self._budgets = [budget for budget in budgets if is_compared(budget)]
        self.levels = {
            budget: level for budget, level in self.levels.items() if budget in self._budgets
        }

    async def begin(self) -> None:
        """Start counters that have none yet with the ledger's amounts."""
        is_new = await self._condition() is CountersCondition.EMPTY
        await self._try_compare(is_empty=is_new, restores=is_new)

    async def run(self) -> None:
        """Compare now and then, and renew the mark whatever the ledger does, without end."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._watch())
            both.create_task(self._renew())

    async def _watch(self) -> None:
        """Look when counters come back, are empty, or have not been looked at for long."""
        before: CountersCondition | None = CountersCondition.WHOLE
        rest = SETTLED_AFTER_S
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            stand = await self._condition()
            rest -= _WATCH_INTERVAL_S
            is_new = stand is CountersCondition.EMPTY or (
                stand is not before and before not in _LACKING
            )
            if stand is None and before is not None:
                self._away_since = self._now()
            elif is_new and self._counters.is_shared:
                self._note_loss(stand, before)
            if is_new or rest <= 0:
                rest = await self._compare_and_restore(stand)
            self._is_away = stand is None
            before = stand

    def _note_loss(self, new: CountersCondition | None, old: CountersCondition | None) -> None:
        """Note whether the counters lost anything, after their mark changed."""
        was_away = old is None and self._now() > self._away_since + _OUTAGE_LOSES_AFTER_S
        if new in _LACKING or was_away:
            self._recovers, self._checkpoint = True, None
            is_begun = new is CountersCondition.REPAIRING and not was_away
            self._shares = CHECKPOINT_TTL_S if is_begun else _CHECKPOINT_SHARED_S

    async def _compare_and_restore(self, stand: CountersCondition | None) -> float:
        """Compare, and restore what was lost; seconds until the next look."""
        self._is_lacking = stand in _LACKING
        is_empty = stand is CountersCondition.EMPTY
        if stand is None or not (self._recovers or self._is_lacking):
            await self._try_compare()
            return SETTLED_AFTER_S if stand is None else _COMPARE_INTERVAL_S
        if self._recovers and self._checkpoint is None:
            await self._try_compare(is_empty=is_empty, begins=True)
            return self._until_in_ledger()
        done = await self._try_compare(is_empty=is_empty, restores=True)
        self._recovers = self._recovers and not done
        return _COMPARE_INTERVAL_S if done else _RETRY_DELAY_S

    def _until_in_ledger(self) -> float:
        """Seconds until the counters can be restored, or a checkpoint can be tried again."""
        begun = self._checkpoint
        if begun is None:
            return _RETRY_DELAY_S
        return max(begun + _LEDGER_DELAY_S - self._now(), _WATCH_INTERVAL_S)

    async def _renew(self) -> None:
        """Renew the mark of counters that are whole, again and again."""
        while True:
            await asyncio.sleep(_RENEW_INTERVAL_S)
            with suppress(StoreError):
                await self._change_condition(CountersCondition.WHOLE, CountersCondition.WHOLE)

    async def compare(self, *, at_once: bool = False) -> None:
        """Compare now.

        Args:
            at_once: True if nothing that the ledger knows can be on its way to the counters.

        Raises:
            StoreError: The database is away.
            StoreError: The counters are.
        """
        now = self._now()
        readings = await self._opened.ask(self._looks.read, self._budgets, now)
        settled = self._looks.note(
            readings, now, is_away=self._is_away, is_lacking=self._is_lacking
        )
        sure = amounts_of(readings) if at_once else settled
        for reading in readings:
            level = await self._compare_budget(reading, sure)
            if reading.budget not in self._budgets:
                continue  # it was changed or taken back meanwhile
            if reading.is_whole:
                self.levels[reading.budget] = level
            else:
                self.levels.pop(reading.budget, None)

    async def restore(self) -> None:
        """Give counters what the ledger knows before the checkpoint, and what they settled since.

        Raises:
            _Behind: It does not know all of that yet.
            StoreError: The database is away.
            StoreError: The counters are.
        """
        now = self._now()
        checkpoint = await self._counters.begin_checkpoint(now, CHECKPOINT_TTL_S)
        if now < checkpoint + _LEDGER_DELAY_S:
            raise _Behind("receipts from before the checkpoint may be on their way")
        for reading in await self._opened.ask(self._looks.read, self._budgets, now, checkpoint):
            restored = 0
            for batch in _batches(reading.by):
                before = await self._counters.restore(batch, checkpoint, self._now())
                both = zip(batch.values(), before, strict=True)
                restored += sum(max(least - reported, 0) for least, reported in both)
            self._log_restored(reading.budget, restored)

    def collect(self) -> Iterator[Metric]:
        """Levels and drifts, as Prometheus' own types."""
        return level_metrics(self.levels)

    async def begin_new(self, budgets: Collection[Budget]) -> None:
        """Give the counters of budgets that are new what the ledger knows of their windows.

        Where the ledger or the counters are away, later looks do it.
        """
        counted = {_counter_identity(budget) for budget in self._budgets}
        new = [
            budget
            for budget in budgets
            if is_compared(budget) and _counter_identity(budget) not in counted
        ]
        if not new:
            return
        try:
            await self._wait_for_ledger()
            now = self._now()
            for reading in await self._opened.ask(self._looks.read, new, now):
                for batch in _batches(reading.by):
                    await self._counters.raise_spent(batch, self._now())
        except (StoreError, _Behind) as error:
            _log.warning("New budgets were not compared with the ledger yet: %s", error)

    async def _compare_budget(self, read: LedgerReading, sure: Mapping[str, int]) -> BudgetLevel:
        """Compares a budget's counters with the ledger, and gives them what they surely lack.

        Args:
            read: Figures of the ledger.
            sure: Figures known when all that was settled is settled by now.
        """
        drift, restored, spent, fullest = 0, 0, 0, 0
        for batch in _batches(read.by):
            least = {name: min(sure.get(name, 0), amount) for name, amount in batch.items()}
            before = await self._counters.raise_spent(least, self._now())
            for name, reported in zip(batch, before, strict=True):
                drift += batch[name] - reported
                restored += max(least[name] - reported, 0)
                used = max(batch[name], reported)
                spent, fullest = spent + used, max(fullest, used)
        self._log_restored(read.budget, restored)
        return BudgetLevel(drift, spent, fullest)

    def _log_restored(self, budget: Budget, restored: int) -> None:
        """Log that counters were given something."""
        if restored:
            level = logging.WARNING if self._counters.is_shared else logging.INFO
            amount = alert.format_amount(budget.unit, restored)
            _log.log(level, "Added %s from the ledger to counters of %s", amount, budget.name)

    async def _condition(self) -> CountersCondition | None:
        """The condition of the counters; None while they are away."""
        try:
            return await self._counters.condition(self._now())
        except StoreError:
            return None

    async def _try_compare(
        self, *, is_empty: bool = False, begins: bool = False, restores: bool = False
    ) -> bool:
        """True if a look went well.

        Args:
            is_empty: True if the counters have no mark.
            begins: True if what is settled from now on is to be kept apart.
            restores: True if the counters get back what they lost; then they are whole.
        """
        try:
            if is_empty:
                await self._change_condition(CountersCondition.EMPTY, CountersCondition.REPAIRING)
            if begins:
                now = self._now()
                self._checkpoint = await self._counters.begin_checkpoint(now, self._shares)
            if restores:
                await self._wait_for_ledger()
            at_once = restores and not self._recovers
            await self.compare(at_once=at_once)
            if restores and not at_once:
                await self.restore()
            if restores:
                await self._change_condition(CountersCondition.REPAIRING, CountersCondition.WHOLE)
        except (StoreError, _Behind) as error:
            _log.warning("Budgets were not compared with the ledger: %s", error)
            return False
        return True

    async def _change_condition(self, before: CountersCondition, after: CountersCondition) -> None:
        """Change the mark, or prolong it, if it still has the expected value."""
        await self._counters.change_condition(before, after, self._now())

    async def _wait_for_ledger(self) -> None:
        """Wait until the ledger knows what this process has written down.

        Raises:
            _Behind: It does not in time.
        """
        if not await self._opened.ask(self._opened.drain.flush, _FLUSH_TIMEOUT_S):
            raise _Behind("it has not taken up all receipts yet")


def _counter_identity(budget: Budget) -> tuple[str, str, str, str]:
    """The identity of a budget's counters: a budget of another limit goes on with the same ones."""
    return budget.name, budget.scope, budget.unit, budget.window


def _batches(amounts: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The amounts, so many counters at a time."""
    items = iter(amounts.items())
    while batch := dict(islice(items, _COUNTERS_PER_BATCH)):
        yield batch
