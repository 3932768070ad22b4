"""Settles and releases reservations in the background, so that no call waits for the counters.

::

    settle ─── tried for some eight seconds ─┬─ settled
                                             └─ given up
                                                  │
    release ──────────────────────────────────────┴─ tried every half second until it succeeds

Counters that stall may take up a reservation long after it was given up, and then hold it for a
minute. A release that succeeds ends that hold, or keeps it from beginning. It also carries the
amount used: a hold that ended before the counters knew it would let others pass the limit.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from proxy.calls.ports import BackgroundTaskGroup
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore

_log = logging.getLogger("thriftgate.budgets")

#: Seconds between the attempts to settle while the call's next attempt may wait for it.
_SETTLE_RETRY_DELAYS_S: Final = (0.2, 0.8, 2.0, 5.0)
#: Seconds between two attempts later, while counters are lost.
_REPEAT_INTERVAL_S: Final = 0.5
#: Reservations that wait for it; beyond that the oldest is left to its end and to the reconciler.
_MAX_UNSETTLED: Final = 10_000


class _Unsettled(NamedTuple):
    """The amounts a reservation used, by counter, and when it ended; None if it was released."""

    amounts: Mapping[str, int]
    ended: float | None


class BackgroundSettlement:
    """Settles and releases the reservations of one process.

    Args:
        counters: Says where they are counted, each time anew.
    """

    def __init__(
        self,
        counters: Callable[[], BudgetStore],
        tasks: BackgroundTaskGroup,
        now: Callable[[], float],
    ) -> None:
        self._counters = counters
        self._tasks = tasks
        self._now = now
        self._settling: dict[str, asyncio.Task[None]] = {}
        self._unsettled: dict[str, _Unsettled] = {}
        self._repeating: asyncio.Task[None] | None = None
        self._is_drained = False

    def settle(self, name: str, amounts: Mapping[str, int], ended: float) -> None:
        """Settle a reservation, at once where this process made it ahead.

        Args:
            amounts: Amounts used, by counter.
            ended: End of the attempt, in seconds since the epoch.
        """
        if self._counters().settle_leased(name, amounts, ended):
            return
        task = self._tasks.start(partial(self._settle, name, amounts, ended))
        self._settling[name] = task
        task.add_done_callback(lambda _: self._settling.pop(name, None))

    def release(self, name: str, counters: Collection[str]) -> None:
        """Let nothing be held under this name, also where its reservation has yet to arrive."""
        self._repeat(name, _Unsettled(dict.fromkeys(counters, 0), None))

    async def wait_until_settled(self, name: str, timeout_s: float) -> None:
        """Wait until a reservation is settled, if it is being settled, but not longer than this."""
        task = self._settling.get(name)
        if task is not None:
            await asyncio.wait({task}, timeout=timeout_s)

    async def drain(self) -> None:
        """Wait until all that has ended is settled or released, where that can be at once."""
        while self._settling:
            await asyncio.wait(set(self._settling.values()))
        self._is_drained = True
        with suppress(StoreError):
            await self._settle_waiting()

    async def _settle(self, name: str, amounts: Mapping[str, int], ended: float) -> None:
        for wait in (*_SETTLE_RETRY_DELAYS_S, None):
            try:
                await self._counters().settle(name, amounts, self._now(), ended)
            except StoreError as error:
                if wait is None:
                    _log.warning("The usage of %s is not counted yet: %s", name, error)
                    self._repeat(name, _Unsettled(amounts, ended))
                else:
                    await asyncio.sleep(wait)
            else:
                return

    def _repeat(self, name: str, unsettled: _Unsettled) -> None:
        """Settle a reservation again and again until the counters answer."""
        self._unsettled[name] = unsettled
        if len(self._unsettled) > _MAX_UNSETTLED:
            del self._unsettled[next(iter(self._unsettled))]
        if self._repeating is None or self._repeating.done():
            self._repeating = self._tasks.start(self._repeat_all)

    async def _repeat_all(self) -> None:
        """Settle what waits for it until nothing does; once, where the gateway is at its end."""
        while True:
            with suppress(StoreError):
                await self._settle_waiting()
            if not self._unsettled or self._is_drained:
                return
            await asyncio.sleep(_REPEAT_INTERVAL_S)

    async def _settle_waiting(self) -> None:
        """Settle what waits for it, one after the other.

        Raises:
            StoreError: The counters are out of reach.
        """
        while self._unsettled:
            name, (amounts, ended) = next(iter(self._unsettled.items()))
            await self._counters().settle(name, amounts, self._now(), ended)
            self._unsettled.pop(name, None)
