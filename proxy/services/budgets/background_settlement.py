"""Settling in the background: what attempts used is counted and what they held goes, with no wait.

::

    settle ─── tried for some eight seconds ─┬─ settled
                                             └─ given up: the ledger knows what was used
                                                  │
    release ──────────────────────────────────────┴─ tried every half second until it was heard

Counters that stall may take up a reservation long after nobody waits for it any more, and then hold
it for a minute. A reservation that was settled before it arrives holds nothing, so a release is not
given up: one that was heard at last ends the hold, or keeps it from beginning.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from proxy.calls.ports import Tasks
from proxy.store.redis.local_budget_store import Reserving, StoreLost

_log = logging.getLogger("thriftgate.budgets")

#: Seconds between the attempts to settle while counters are lost; the reconciler does the rest.
_SETTLE_RETRY_DELAYS_S: Final = (0.2, 0.8, 2.0, 5.0)
#: Seconds between two attempts to release while counters are lost.
_RELEASE_EVERY_S: Final = 0.5
#: Holds that wait for their release; beyond that the oldest is left to its end.
_MAX_UNRELEASED: Final = 10_000


class BackgroundSettlement:
    """Settles and releases the reservations of one process.

    Args:
        counters: Says where they are counted, each time anew.
        tasks: Where settling runs.
        now: Seconds since the epoch.
    """

    def __init__(
        self, counters: Callable[[], Reserving], tasks: Tasks, now: Callable[[], float]
    ) -> None:
        self._counters = counters
        self._tasks = tasks
        self._now = now
        self._settling: dict[str, asyncio.Task[None]] = {}
        self._unreleased: dict[str, Collection[str]] = {}
        self._releasing: asyncio.Task[None] | None = None

    def settle(self, name: str, amounts: Mapping[str, int], ended: float) -> None:
        """Settle a reservation, at once where this process made it ahead.

        Args:
            name: The reservation's.
            amounts: What was used, by counter.
            ended: When the attempt ended, in seconds since the epoch.
        """
        if self._counters().settle_here(name, amounts, ended):
            return
        task = self._tasks.start(partial(self._settle, name, amounts, ended))
        self._settling[name] = task
        task.add_done_callback(lambda _: self._settling.pop(name, None))

    def release(self, name: str, counters: Collection[str]) -> None:
        """Let nothing be held under this name, also where its reservation has yet to arrive."""
        self._unreleased[name] = counters
        if len(self._unreleased) > _MAX_UNRELEASED:
            del self._unreleased[next(iter(self._unreleased))]
        if self._releasing is None or self._releasing.done():
            self._releasing = self._tasks.start(self._release_all)

    async def wait_until_settled(self, name: str, timeout_s: float) -> None:
        """Wait until a reservation is settled, if it is being settled, but not longer than this."""
        task = self._settling.get(name)
        if task is not None:
            await asyncio.wait({task}, timeout=timeout_s)

    async def drain(self) -> None:
        """Wait until all that has ended is settled or given up, and released if that can be."""
        while self._settling:
            await asyncio.wait(set(self._settling.values()))
        if self._unreleased:
            with suppress(StoreLost):
                await self._release_waiting()
            self._unreleased.clear()

    async def _settle(self, name: str, amounts: Mapping[str, int], ended: float) -> None:
        for wait in (*_SETTLE_RETRY_DELAYS_S, None):
            try:
                await self._counters().settle(name, amounts, self._now(), ended)
            except StoreLost as error:
                if wait is None:
                    _log.warning("What %s used was not counted: %s", name, error)
                    self.release(name, amounts.keys())
                else:
                    await asyncio.sleep(wait)
            else:
                return

    async def _release_all(self) -> None:
        """Release until nothing waits for it."""
        while True:
            with suppress(StoreLost):
                await self._release_waiting()
            if not self._unreleased:
                return
            await asyncio.sleep(_RELEASE_EVERY_S)

    async def _release_waiting(self) -> None:
        """Release what waits for it, one after the other.

        Raises:
            StoreLost: The counters are out of reach.
        """
        while self._unreleased:
            name, counters = next(iter(self._unreleased.items()))
            await self._counters().settle(name, dict.fromkeys(counters, 0), self._now())
            self._unreleased.pop(name, None)
