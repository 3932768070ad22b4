"""Reconciling: counters that lack what the ledger knows are given it, and the drift is published.

A counter may lack something because its store was lost, or because it began after its budget's
window did. What the ledger knew a while ago has been settled by now, or never will be: no less than
that was spent. Nothing is ever taken off::

    counters    here ────────────── every minute ──────────────── compare
                lost, and away ──── at once, every SETTLED ────── learn what the ledger knows
                back, or empty ──── at once ───────────────────── compare
                  from then on ──── every SETTLED, some times ─── compare, and add what both lacked

While calls go on, a counter that was lost has always settled some that the ledger knew not long
ago, so that the first rule leaves it behind by as much. What it lacks at two looks, once all that
was on its way through the loss has come, it lacks for good. Amounts are lifted, not added:
whichever processes do it, it is done once.

A counter of shared counters' own, the mark, tells whether they have lost everything. Then all that
the ledger knew when they were seen to go is theirs at once. What was on its way in that quarter of
a second may then count twice, which refuses a little early rather than a little late.
What the ledger knows, and of what, is said in ``proxy.limits.accounts``.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Final

import msgspec
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from proxy.limits.accounts import Accounts, is_compared
from proxy.store.reserving import Reserving, StoreLost
from proxy.store.store import Store
from slo.budget import Budget, Unit, counter
from slo.reservations import MOST, Level

_log = logging.getLogger("thriftgate.budgets")

_EVERY: Final = 60.0
#: Seconds between two looks whether the counters are there.
_GLANCE: Final = 0.25
#: Seconds after which what the ledger knows has been settled, or given up: more than all attempts
#: of an admission take together.
SETTLED: Final = 12.0
_NANOS: Final = 1_000_000_000
#: Counters asked for at once.
_BATCH: Final = 100
#: No budget's counter: theirs have slashes.
_MARK: Final = "mark"


class _Stand(Enum):
    """How the counters stand."""

    HERE = "here"
    AWAY = "away"
    EMPTY = "empty"


class _Known(msgspec.Struct, frozen=True):
    """What the ledger knew at a time, by counter, and how much of it the counter lacked."""

    at: float
    amounts: Mapping[str, int]
    lacking: dict[str, int]


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
    """Compares every minute, and when counters come back.

    Args:
        budgets: All there are.
        counters: Where they are counted.
        opened: The store with the ledger.
        now: Seconds since the epoch.

    Attributes:
        drifts: By budget, what the ledger knows and counters lack; below 0 where the ledger is
            behind. A budget of which the ledger holds more than one look reads is left out.
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
        self._accounts = Accounts(opened.spendings)
        self._now = now
        self._before: deque[_Known] = deque(maxlen=32)
        self._last: _Known | None = None
        self._is_away = False
        self._is_empty = False
        self._back: float | None = None
        self.drifts: dict[Budget, int] = {}

    async def begin(self) -> None:
        """Give counters that only this process has, and that begin at 0, what the ledger knows."""
        await self._looked(at_once=not self._counters.is_shared)

    async def run(self) -> None:
        """Compare now and then, for ever."""
        before, rest = _Stand.HERE, SETTLED
        while True:
            await asyncio.sleep(_GLANCE)
            stand = await self._stand()
            rest -= _GLANCE
            if stand is not before and before is not _Stand.EMPTY:
                self._back, rest = self._now(), 0.0
            if rest <= 0:
                self._is_empty = stand is _Stand.EMPTY
                await self._looked(at_once=False)
                rest = _EVERY if self._back is None else SETTLED
            self._is_away = stand is _Stand.AWAY
            before = stand

    async def look(self, *, at_once: bool = False) -> None:
        """Compare now.

        Args:
            at_once: Whether nothing that the ledger knows can be on its way to the counters.

        Raises:
            SQLAlchemyError: The database is away.
            StoreLost: The counters are.
        """
        now = self._now()
        before, last = self._settled(now), self._last if self._is_empty else None
        read, known = await self._opened.ask(self._read, now)
        self._remember(_Known(now, known, {}))
        newest = max(filter(None, (before, last)), key=lambda look: look.at, default=None)
        sure = known if at_once else newest.amounts if newest else {}
        is_second = _is_since(before, self._back)
        lacked = before.lacking if before and is_second else {}
        for budget, by, is_whole in read:
            drift = await self._compared(budget, by, sure, lacked)
            if is_whole:
                self.drifts[budget] = drift
            else:
                self.drifts.pop(budget, None)
        if is_second:
            self._back = None
        if at_once or newest is not None:
            await self._counters.lift({_MARK: 1}, now)

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

    def _read(self, now: float) -> tuple[list[tuple[Budget, dict[str, int], bool]], dict[str, int]]:
        """What the ledger knows by counter, whole or not: of each budget, and of all; blocks."""
        found, known = [], dict[str, int]()
        for budget in self._budgets:
            account = self._accounts.of(budget, now)
            by = {counter(budget, whose, now): amount for whose, amount in account.by.items()}
            found.append((budget, by, account.is_whole))
            known |= by
        return found, known

    def _remember(self, look: _Known) -> None:
        """Keep what the ledger knows; apart, when counters were there last, or just away."""
        self._before.append(look)
        if not self._is_away:
            self._last = look

    def _settled(self, now: float) -> _Known | None:
        """The last look of which all that the ledger knew is settled by now; None if none is."""
        settled = now - SETTLED
        while len(self._before) > 1 and self._before[1].at <= settled:
            self._before.popleft()
        if not self._before or self._before[0].at > settled:
            return None
        return self._before[0]

    async def _compared(
        self,
        budget: Budget,
        by: Mapping[str, int],
        sure: Mapping[str, int],
        lacked: Mapping[str, int],
    ) -> int:
        """What a budget's counters lack of what the ledger knows; they are given what is sure.

        Args:
            budget: Which.
            by: What the ledger knows, by counter.
            sure: What it knew when all that was settled is settled by now.
            lacked: What the counters lacked then, where they can have lacked it for good only.
        """
        drift, given = 0, 0
        lacking = self._before[-1].lacking
        names = iter(by)
        while batch := list(islice(names, _BATCH)):
            least = {name: min(sure.get(name, 0), by[name], MOST) for name in batch}
            said = await self._lifted(least)
            spent = {name: max(least[name], said[name]) for name in batch}
            again = {
                name: min(by[name], spent[name] + lacked[name], MOST)
                for name in batch
                if name in lacked
            }
            for name, found in (await self._lifted(again)).items():
                spent[name] = max(again[name], found)
            lacking.update((n, by[n] - spent[n]) for n in batch if by[n] > spent[n])
            drift += sum(by[name] - said[name] for name in batch)
            given += sum(spent[name] - said[name] for name in batch)
        if given:
            unit = "nano-dollars" if budget.unit is Unit.USD else budget.unit.value
            _log.warning(
                "Counters of the budget %s lacked %d %s that the ledger knows, and were given them",
                budget.name,
                given,
                unit,
            )
        return drift

    async def _lifted(self, least: Mapping[str, int]) -> dict[str, int]:
        """What counters said before they were lifted to this."""
        if not least:
            return {}
        return dict(zip(least, await self._counters.lift(least, self._now()), strict=True))

    async def _stand(self) -> _Stand:
        if not self._counters.is_shared:
            return _Stand.HERE
        try:
            (mark,) = await self._counters.levels([_MARK], self._now())
        except StoreLost:
            return _Stand.AWAY
        return _Stand.HERE if mark.spent else _Stand.EMPTY

    async def _looked(self, *, at_once: bool) -> None:
        try:
            await self.look(at_once=at_once)
        except (SQLAlchemyError, StoreLost) as error:
            _log.warning("Budgets were not compared with the ledger: %s", error)


def _is_since(look: _Known | None, back: float | None) -> bool:
    """Whether a look came when counters had been back for so long that all was settled."""
    return look is not None and back is not None and look.at >= back + SETTLED
