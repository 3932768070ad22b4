"""Admission: what a call may use is held before it is sent, and what it used is settled after.

::

    admit ─┬─ OverBudget, Unready                    nothing is held
           └─ held ── beat, every third of TTL ── settled, by the attempt's receipt

One reservation covers every budget a call counts in, in one step. Settling never makes a caller
wait. A process that dies settles nothing: what it held goes at its end.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from proxy.call import Call
from proxy.catalog.entries import Route
from proxy.desk import Estimator, Tasks
from proxy.errors import ProxyError
from proxy.limits.claims import (
    Counted,
    billed,
    claim,
    counted,
    needs,
    output_limit,
    subject,
    used,
)
from proxy.limits.refusals import away, left, refusal
from proxy.receipt import Outcome, Receipt
from proxy.settle import Attempt, Seal, terms
from proxy.store.reserving import Reserving, StoreLost
from proxy.wire.port import Prepared
from slo.budget import LABEL, Budget, Budgets, OnLoss, Unit
from slo.hold import Need, Quote
from slo.lengths import Lengths
from slo.reservations import MOST, Claim, Granted, Level, Refused, Reservations

_log = logging.getLogger("thriftgate.budgets")

#: Seconds that a hold outlives the last sign of its call.
TTL: Final = 60.0
#: Bodies up to this size are not counted: a fourth of their bytes is more tokens than they have.
_SMALL: Final = 16 * 1024
#: Seconds for which counters that were lost are not asked again.
_PAUSE: Final = 1.0
#: Seconds between the attempts to settle while counters are lost; the reconciler does the rest.
_AGAIN: Final = (0.2, 0.8, 2.0, 5.0)
#: The part of what was left that one process spends while counters are lost.
_QUOTA: Final = 10
#: Counters whose levels are remembered.
_HEARD: Final = 20_000
#: How often a reservation is tried with what the refusal before it told.
_ROUNDS: Final = 4


class _Open(msgspec.Struct):
    """An attempt for which something is held.

    Attributes:
        name: Of its reservation.
        counted: The budgets it counts in.
        wanted: What it may use.
        kind: What calls of like length have in common.
        sent: Whether it went to an upstream.
    """

    name: str
    counted: list[Counted]
    wanted: dict[Unit, Need]
    kind: Hashable
    sent: bool = False


class Admission:
    """Holds and settles for the calls of one process.

    Args:
        budgets: All there are.
        store: The counters.
        estimator: Counts prompts.
        seal: Hides who end users are.
        tasks: Where settling runs.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        budgets: Collection[Budget],
        store: Reserving,
        *,
        estimator: Estimator,
        seal: Seal,
        tasks: Tasks,
        now: Callable[[], float],
    ) -> None:
        self._budgets = Budgets(budgets)
        self._labelled = any(budget.scope.startswith(LABEL) for budget in budgets)
        self._store = store
        self._estimator = estimator
        self._seal = seal
        self._tasks = tasks
        self._now = now
        self._lengths = Lengths()
        self._open: dict[tuple[str, int], _Open] = {}
        self._settling: dict[str, asyncio.Task[None]] = {}
        self._heard: OrderedDict[str, Level] = OrderedDict()
        self._lost_until = float("-inf")
        self._local: _Local | None = None

    async def admit(self, attempt: Attempt, prepared: Prepared) -> Mapping[str, str]:
        """Hold what the attempt may use; headers that tell the caller what is left.

        Raises:
            OverBudget: It does not fit into a budget.
            Unready: The counters are away, and a budget is not to be passed unseen.
        """
        call, route = attempt.call, attempt.route
        who = subject(call, self._seal, labelled=self._labelled)
        found = counted(self._budgets, who, call)
        if not found or route is None:
            return {}
        await self._settled_before(call, attempt.number)
        opened = await self._opened(attempt, route, prepared, found)
        key = (call.id, attempt.number)
        self._open[key] = opened
        try:
            levels = await self._held(opened)
        except ProxyError:  # cancelled, it may be held all the same: its receipt settles it
            del self._open[key]
            raise
        opened.sent = True
        return left(found, levels, self._now())

    def settled(self, receipt: Receipt) -> None:
        """Settle an attempt with its receipt, in the background."""
        opened = self._open.pop((receipt.call_id, receipt.attempt), None)
        if opened is None:
            return
        usage = receipt.usage
        if usage is not None and receipt.outcome is Outcome.ANSWERED and not receipt.estimated:
            self._lengths.add(opened.kind, usage.generated)
        amounts = {
            each.counter: used(each.budget.unit, receipt) if opened.sent else 0
            for each in opened.counted
        }
        if self._local is not None:
            self._local.settle(opened.name, amounts, self._now())
        task = self._tasks.start(partial(self._settle, opened.name, amounts))
        self._settling[opened.name] = task
        task.add_done_callback(lambda _: self._settling.pop(opened.name, None))

    async def beat(self) -> None:
        """Let what is held for calls under way end later, for ever."""
        while True:
            await asyncio.sleep(TTL / 3)
            try:
                for each in list(self._open.values()):
                    now = self._now()
                    names = [one.counter for one in each.counted]
                    await self._store.extend(each.name, names, now, now + TTL)
            except StoreLost as error:
                _log.warning("What calls hold was not extended: %s", error)

    async def drained(self) -> None:
        """Wait until all that has ended is settled, or is given up."""
        while self._settling:
            await asyncio.wait(set(self._settling.values()))

    async def _settled_before(self, call: Call, number: int) -> None:
        """Wait until what the attempt before this one held is free, not for long."""
        before = self._settling.get(f"{call.id}/{number - 1}")
        if before is not None:
            await asyncio.wait({before}, timeout=_PAUSE)

    async def _opened(
        self, attempt: Attempt, route: Route, prepared: Prepared, found: list[Counted]
    ) -> _Open:
        call = attempt.call
        units = {each.budget.unit for each in found}
        limit, tokens = 0, 0
        if units != {Unit.REQUESTS}:
            limit = output_limit(call, route)
            tokens = await self._tokens(call, route)
        kind = (call.key.team, call.feature, call.model, limit.bit_length())
        wanted = needs(
            units,
            call,
            billed(tokens, route, prepared.body),
            self._lengths.output(kind, limit),
            Quote(tariff=route.tariff, at=call.arrived, terms=terms(attempt, "", {})),
        )
        return _Open(f"{call.id}/{attempt.number}", found, wanted, kind)

    async def _tokens(self, call: Call, route: Route) -> int:
        """Tokens of the prompt, counted off the event loop where it is not small."""
        if len(call.body) <= _SMALL:
            return -(-len(call.body) // 4)
        return (await self._estimator.usage(call, route, None)).prompt

    async def _held(self, opened: _Open) -> Sequence[Level]:
        """What the counters say with what is held now.

        Raises:
            OverBudget: It does not fit.
            Unready: As ``admit``.
        """
        if self._now() < self._lost_until:
            return self._unseen(opened)
        try:
            levels = await self._asked_twice(opened)
        except StoreLost as error:
            self._lost_until = self._now() + _PAUSE
            _log.warning("Budgets are not counted just now: %s", error)
            return self._unseen(opened)
        self._local = None
        return levels

    async def _asked_twice(self, opened: _Open) -> Sequence[Level]:
        """What the counters say; a busy machine may miss one deadline, and it is held once."""
        try:
            return await self._asked(opened)
        except StoreLost:
            return await self._asked(opened)

    async def _asked(self, opened: _Open) -> Sequence[Level]:
        for rest in reversed(range(_ROUNDS)):
            claims = [self._claim(each, opened) for each in opened.counted]
            now = self._now()
            said = await self._store.reserve(opened.name, claims, now, now + TTL)
            if isinstance(said, Granted):
                for asked, level in zip(claims, said.levels, strict=True):
                    self._hear(asked.counter, level)
                return said.levels
            each = opened.counted[said.claim]
            asked = claims[said.claim]
            self._hear(asked.counter, said.level)
            again = self._claim(each, opened)
            if not rest or (again.amount >= asked.amount and again.limit <= asked.limit):
                raise refusal(each, said, asked.amount, now)
        raise AssertionError  # the last round returns or raises

    def _claim(self, each: Counted, opened: _Open) -> Claim:
        return claim(each, opened.wanted[each.budget.unit], self._heard.get(each.counter))

    def _hear(self, counter: str, level: Level) -> None:
        self._heard[counter] = level
        self._heard.move_to_end(counter)
        if len(self._heard) > _HEARD:
            self._heard.popitem(last=False)

    def _unseen(self, opened: _Open) -> Sequence[Level]:
        """Admit a call while the counters are away, if each of its budgets lets it pass.

        Raises:
            Unready: One of them does not.
        """
        hard = [each for each in opened.counted if each.budget.hard]
        if any(each.budget.on_loss is OnLoss.CLOSED for each in hard):
            raise away()
        bounded = [each for each in hard if each.budget.on_loss is OnLoss.LOCAL_QUOTA]
        if bounded:
            self._local = self._local or _Local()
            wanted = opened.wanted
            claims = [
                self._local.claim(each, wanted[each.budget.unit], self._heard.get(each.counter))
                for each in bounded
            ]
            if not self._local.reserve(opened.name, claims, self._now()):
                raise away()
        return ()

    async def _settle(self, name: str, amounts: Mapping[str, int]) -> None:
        for wait in (*_AGAIN, None):
            try:
                await self._store.settle(name, amounts, self._now())
            except StoreLost as error:
                if wait is None:
                    _log.warning("What %s used was not counted: %s", name, error)
                else:
                    await asyncio.sleep(wait)
            else:
                return


class _Local:
    """What this process admits by itself while the counters are away."""

    def __init__(self) -> None:
        self._reservations = Reservations()
        self._quotas: dict[str, int] = {}

    def claim(self, each: Counted, wanted: Need, level: Level | None) -> Claim:
        """The call's claim on this process's part of what was left when last heard."""
        limit = each.budget.limit
        free = limit if level is None else max(limit - level.spent - level.held, 0)
        quota = self._quotas.setdefault(each.counter, free // _QUOTA)
        return Claim(each.counter, min(wanted.worst, MOST), quota, True, each.ends)  # noqa: FBT003 - as it is

    def reserve(self, name: str, claims: Sequence[Claim], now: float) -> bool:
        """Whether all claims are held."""
        return not isinstance(self._reservations.reserve(name, claims, now, now + TTL), Refused)

    def settle(self, name: str, amounts: Mapping[str, int], now: float) -> None:
        """Note what a call used."""
        self._reservations.settle(name, amounts, now)
