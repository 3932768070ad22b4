"""Loss of the budget counters: calls wait out a stall, then one process admits by a local quota.

::

    answering ── note_loss ── stalled, probed every tenth of a second ─┬─ answering: all go on
        ▲                                                              └─ after 3 s: an outage
        └──────────────────────── note_answer ─────────────────────────────────┘

A call waits three seconds at most. In an outage no call waits: a call is refused as soon as it was
asked for in vain, or admitted by the local quota where its budget says so. Losses that lie some
seconds apart are stalls of their own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from proxy.calls.ports import BackgroundTaskGroup
from proxy.services.budgets.cost_bounds.reservation_requests import CountedBudget
from proxy.store.errors import StoreError
from slo.budgets.counter import MAX_AMOUNT, CounterClaim, CounterLevel, ReservationRefused
from slo.budgets.reservation_sizing import UsageBounds
from slo.budgets.reservations import Reservations

STALL_WAIT_S: Final = 3.0
"""Seconds that a call waits for counters that do not answer; less than any client's patience."""

_PROBE_INTERVAL_S: Final = 0.1
#: Seconds without a loss after which the next one begins a stall of its own.
_FORGET_AFTER_S: Final = 10.0
_MAX_WAITERS: Final = 1_000
#: Seconds that a hold outlives the last sign of its call.
TTL_S: Final = 60.0
#: The part of what was left that one process spends while counters are lost.
_QUOTA_DIVISOR: Final = 10


class CounterStalls:
    """The stalls of one process's counters.

    Args:
        probe: Asks the counters something cheap.
    """

    def __init__(self, probe: Callable[[], Awaitable[object]], tasks: BackgroundTaskGroup) -> None:
        self._probe = probe
        self._tasks = tasks
        self._began: float | None = None
        self._last_loss = float("-inf")
        self._probing: asyncio.Task[None] | None = None
        self._waiters = 0

    @property
    def is_stalled(self) -> bool:
        """True while the counters do not answer, and may soon."""
        return self._began is not None and not self._is_outage()

    def note_answer(self) -> None:
        """Note that the counters answered."""
        self._began = None

    def note_loss(self) -> None:
        """Note that the counters did not answer."""
        now = asyncio.get_running_loop().time()
        if self._began is None or now > self._last_loss + _FORGET_AFTER_S:
            self._began = now
        self._last_loss = now
        if not self._is_outage() and (self._probing is None or self._probing.done()):
            self._probing = self._tasks.start(self._probe_until_answered)

    async def wait(self, deadline: float) -> bool:
        """True once the counters are worth asking again; False where a call is to wait no longer.

        Args:
            deadline: Until when, by the running loop's clock.
        """
        clock = asyncio.get_running_loop().time
        if self._probing is None or self._is_outage() or self._waiters >= _MAX_WAITERS:
            return False
        self._waiters += 1
        try:
            await asyncio.wait({self._probing}, timeout=max(deadline - clock(), 0.0))
        finally:
            self._waiters -= 1
        return clock() < deadline and not self._is_outage()

    def _is_outage(self) -> bool:
        """True if the counters have not answered for longer than a call waits."""
        now = asyncio.get_running_loop().time()
        return self._began is not None and now >= self._began + STALL_WAIT_S

    async def _probe_until_answered(self) -> None:
        """Ask until the counters answer, or the stall has become an outage."""
        while self.is_stalled:
            await asyncio.sleep(_PROBE_INTERVAL_S)
            try:
                await self._probe()
            except StoreError:
                continue
            self.note_answer()


class LocalQuota:
    """Admits calls by this process's part of what was left while the counters are away."""

    def __init__(self) -> None:
        self._reservations = Reservations()
        self._quotas: dict[str, int] = {}

    def claim(
        self, counted: CountedBudget, bounds: UsageBounds, level: CounterLevel | None
    ) -> CounterClaim:
        """The call's claim on this process's part of what was left when last heard."""
        limit = counted.budget.limit
        free = limit if level is None else max(limit - level.spent - level.held, 0)
        quota = self._quotas.setdefault(counted.counter, free // _QUOTA_DIVISOR)
        amount = min(bounds.maximum, MAX_AMOUNT)
        return CounterClaim(counted.counter, amount, quota, hard=True, ends=counted.ends)

    def reserve(self, name: str, claims: Sequence[CounterClaim], now: float) -> bool:
        """True if all claims are held."""
        return not isinstance(
            self._reservations.reserve(name, claims, now, now + TTL_S), ReservationRefused
        )

    def settle(self, name: str, amounts: Mapping[str, int], now: float) -> None:
        """Note what a call used."""
        self._reservations.settle(name, amounts, now)
