"""Reconciling: counters that lack what the ledger knows are given it, and the drift is published.

A counter may lack something because its store was lost, or because it began after its budget's
window did. What the ledger knew a while ago has been settled by now, or never will be: no less than
that was spent. Nothing is ever taken off::

    counters    here ────────────── every minute ──────────────── compare
                lost, and away ──── at once, every SETTLED ────── learn what the ledger knows
                back, or empty ──── at once ───────────────────── compare
                  from then on ──── every SETTLED, some times ─── compare, and add what both lacked
    empty         SETTLED later ─── once ──────────────────────── compare, and call them whole

While calls go on, a counter that was lost has always settled some that the ledger knew not long
ago, so that the first rule leaves it behind by as much. What it lacks at two looks, once all that
was on its way through the loss has come, it lacks for good. Amounts are lifted, not added:
whichever processes do it, it is done once.

The counters' mark tells whether they have lost everything. Then all that the ledger knew when they
were seen to go is theirs at once. What was on its way in that quarter of a second may then count
twice, which refuses a little early rather than a little late. When all that was on its way through
the loss has come, they get all that the ledger knows by then, and only then count as whole: to most
hard budgets they are as good as away before (``proxy.limits.admission``). Where a process begins
and finds no mark, or nobody else counts, nothing is on its way, and its first look makes them so.
What the ledger knows, and of what, is said in ``proxy.limits.accounts``.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from proxy.limits.accounts import Accounts, is_compared
from proxy.store.reserving import Condition, Reserving, StoreLost
from proxy.store.store import Store
from slo import alert
from slo.budget import Budget, Unit, counter
from slo.reservations import MOST

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
#: Seconds between two times that the mark is renewed; it lasts for several.
_RENEWED: Final = 5.0
#: Seconds after which counters that could not be made whole are looked at again.
_AGAIN: Final = 1.0
#: Seconds that the ledger gets to take up what this process has written down for it.
_FLUSH: Final = 5.0
_LACKING: Final = (Condition.EMPTY, Condition.MENDING)


class _Behind(Exception):
    """The ledger does not know yet all that this process has written down for it."""


class _Known(msgspec.Struct, frozen=True):
    """What the ledger knew at a time, by counter, and how much of it the counter lacked."""

    at: float
    amounts: Mapping[str, int]
    lacking: dict[str, int]


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
        self._budgets: list[Budget] = []
        self.drifts: dict[Budget, int] = {}
        self.update(budgets)
        self._counters = counters
        self._opened = opened
        self._accounts = Accounts(opened.spendings)
        self._now = now
        self._before: deque[_Known] = deque(maxlen=32)
        self._last: _Known | None = None
        self._is_away = False
        self._is_lacking = False
        self._back: float | None = None

    def update(self, budgets: Collection[Budget]) -> None:
        """Compare these budgets from the next look on."""
        self._budgets = [budget for budget in budgets if is_compared(budget)]
        self.drifts = {each: drift for each, drift in self.drifts.items() if each in self._budgets}

    async def begin(self) -> None:
        """Give counters that nobody has begun yet what the ledger knows."""
        is_new = await self._stand() is Condition.EMPTY
        await self._looked(is_new=is_new, at_once=is_new)

    async def run(self) -> None:
        """Compare now and then, and renew the mark whatever the ledger does, for ever."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._watch())
            both.create_task(self._renew())

    async def _watch(self) -> None:
        """Look when counters come back, are empty, or have not been looked at for long."""
        before: Condition | None = Condition.WHOLE
        rest = SETTLED
        while True:
            await asyncio.sleep(_GLANCE)
            stand = await self._stand()
            rest -= _GLANCE
            is_new = stand is Condition.EMPTY or (stand is not before and before not in _LACKING)
            if is_new:
                self._back = self._now()
            if is_new or rest <= 0:
                self._is_lacking = stand in _LACKING
                at_once = self._is_lacking and not (is_new and self._counters.is_shared)
                done = await self._looked(is_new=stand is Condition.EMPTY, at_once=at_once)
                rest = self._rest(is_whole=done or not at_once)
            self._is_away = stand is None
            before = stand

    async def _renew(self) -> None:
        """Say again and again of counters that are whole that they are."""
        while True:
            await asyncio.sleep(_RENEWED)
            with suppress(StoreLost):
                await self._turn(Condition.WHOLE, Condition.WHOLE)

    async def look(self, *, at_once: bool = False) -> None:
        """Compare now.

        Args:
            at_once: Whether nothing that the ledger knows can be on its way to the counters.

        Raises:
            SQLAlchemyError: The database is away.
            StoreLost: The counters are.
        """
        now = self._now()
        before, last = self._settled(now), self._last if self._is_lacking else None
        read, known = await self._opened.ask(self._read, now)
        self._remember(_Known(now, known, {}))
        newest = max(filter(None, (before, last)), key=lambda look: look.at, default=None)
        sure = known if at_once else newest.amounts if newest else {}
        is_second = _is_since(before, self._back)
        lacked = before.lacking if before and is_second else {}
        for budget, by, is_whole in read:
            drift = await self._compared(budget, by, sure, lacked)
            if budget not in self._budgets:
                continue  # it was changed or taken back meanwhile
            if is_whole:
                self.drifts[budget] = drift
            else:
                self.drifts.pop(budget, None)
        if is_second:
            self._back = None

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

    async def begin_new(self, budgets: Collection[Budget]) -> None:
        """Give the counters of budgets that are new what the ledger knows of their windows.

        Where the ledger or the counters are away, later looks do it.
        """
        counted = {_counted(each) for each in self._budgets}
        new = [each for each in budgets if is_compared(each) and _counted(each) not in counted]
        if not new:
            return
        try:
            await self._caught_up()
            _, known = await self._opened.ask(self._read, self._now(), new)
            names = iter(known)
            while batch := list(islice(names, _BATCH)):
                await self._lifted({name: min(known[name], MOST) for name in batch})
        except (SQLAlchemyError, StoreLost, _Behind) as error:
            _log.warning("New budgets were not compared with the ledger yet: %s", error)

    def _read(
        self, now: float, budgets: Collection[Budget] | None = None
    ) -> tuple[list[tuple[Budget, dict[str, int], bool]], dict[str, int]]:
        """What the ledger knows by counter, whole or not: of each budget, and of all; blocks."""
        found, known = [], dict[str, int]()
        for budget in self._budgets if budgets is None else budgets:
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
            level = logging.WARNING if self._counters.is_shared else logging.INFO
            told = alert.amount(budget.unit, given)
            _log.log(level, "The budget %s was given %s that the ledger knows", budget.name, told)
        return drift

    async def _lifted(self, least: Mapping[str, int]) -> dict[str, int]:
        """What counters said before they were lifted to this."""
        if not least:
            return {}
        return dict(zip(least, await self._counters.lift(least, self._now()), strict=True))

    async def _stand(self) -> Condition | None:
        """What the counters' mark says; None while they are away."""
        try:
            return await self._counters.condition(self._now())
        except StoreLost:
            return None

    async def _looked(self, *, is_new: bool, at_once: bool) -> bool:
        """Whether a look went well.

        Args:
            is_new: Whether the counters were not known before to be empty.
            at_once: Whether it makes them whole.
        """
        try:
            if is_new:
                await self._turn(Condition.EMPTY, Condition.MENDING)
            if at_once:
                await self._caught_up()
            await self.look(at_once=at_once)
            if at_once:
                await self._turn(Condition.MENDING, Condition.WHOLE)
        except (SQLAlchemyError, StoreLost, _Behind) as error:
            _log.warning("Budgets were not compared with the ledger: %s", error)
            return False
        return True

    async def _turn(self, before: Condition, after: Condition) -> None:
        """Let the mark say something else, or the same for longer, if it still says that."""
        await self._counters.turn(before, after, self._now())

    async def _caught_up(self) -> None:
        """Wait until the ledger knows what this process has written down.

        Raises:
            _Behind: It does not in time.
        """
        if not await self._opened.ask(self._opened.drain.flush, _FLUSH):
            raise _Behind("it has not taken up all receipts yet")

    def _rest(self, *, is_whole: bool) -> float:
        """Seconds until the next look."""
        if not is_whole:
            return _AGAIN
        return _EVERY if self._back is None else SETTLED


def _counted(budget: Budget) -> tuple[str, str, str, str]:
    """What its counters are known by: a budget of another limit goes on with the same ones."""
    return budget.name, budget.scope, budget.unit, budget.window


def _is_since(look: _Known | None, back: float | None) -> bool:
    """Whether a look came when counters had been back for so long that all was settled."""
    return look is not None and back is not None and look.at >= back + SETTLED
