"""The newest calls of this process in memory, and listeners that get each call as it ends.

::

    receipt ─ record ─┬─ ring (the newest, oldest dropped)
                      └─ a queue of each listener (bounded, oldest dropped)

Calls never wait for a listener: one that is slow misses calls and is told how many. Queues hold
receipts; a row is made of one only when a page gets it, as most calls are never looked at.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from dashboards.views.calls import CallRow
from proxy.errors import Unready
from proxy.records.receipt import IDLE_TEAM, Receipt
from proxy.store.sql.views.calls import call_row

#: Calls that are remembered, and those that wait for one listener.
_MAX_REMEMBERED_CALLS: Final = 500
_MAX_WAITING_CALLS: Final = 200
MAX_LISTENERS: Final = 32

Wanted = Callable[[Receipt], bool]
"""True for a call that a listener is told of."""


class LiveListener:
    """One listener: calls that wait for it.

    Attributes:
        dropped: Calls that it was too slow for.
    """

    def __init__(self, is_wanted: Wanted) -> None:
        self._wanted = is_wanted
        self._waiting: deque[Receipt] = deque()
        self._woken = asyncio.Event()
        self.dropped = 0

    def record(self, receipt: Receipt) -> None:
        """Takes note of a call, if it is wanted; never blocks."""
        if not self._wanted(receipt):
            return
        if len(self._waiting) >= _MAX_WAITING_CALLS:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(receipt)
        self._woken.set()

    async def calls(self, timeout_s: float) -> list[CallRow]:
        """All calls that wait, in order; [] if none came within so many seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            return []
        self._woken.clear()
        rows = [call_row(receipt, {}) for receipt in self._waiting]
        self._waiting.clear()
        return rows


class LiveCalls:
    """Calls of this process as they end."""

    def __init__(self) -> None:
        self._ring: deque[Receipt] = deque(maxlen=_MAX_REMEMBERED_CALLS)
        self._listeners: set[LiveListener] = set()

    def record(self, receipt: Receipt) -> None:
        """Takes note of a call that ended; receipts of attempts before the last are no calls."""
        if not receipt.final or receipt.team == IDLE_TEAM:
            return
        if receipt.prompt is not None:  # of any length, and on no row
            receipt = msgspec.structs.replace(receipt, prompt=None)
        self._ring.append(receipt)
        for listener in self._listeners:
            listener.record(receipt)

    def newest(self, is_wanted: Wanted, limit: int) -> Iterator[CallRow]:
        """The newest calls that are wanted, oldest of them first."""
        receipts = [receipt for receipt in self._ring if is_wanted(receipt)]
        yield from (call_row(call, {}) for call in receipts[-limit:] if limit)

    @contextmanager
    def listener(self, is_wanted: Wanted) -> Iterator[LiveListener]:
        """A listener, for as long as the block lasts.

        Raises:
            Unready: There are too many already.
        """
        if len(self._listeners) >= MAX_LISTENERS:
            raise Unready(
                f"{MAX_LISTENERS} pages follow live calls already; close one, or try again later.",
                code="too_many_listeners",
                retry_after=60.0,
            )
        made = LiveListener(is_wanted)
        self._listeners.add(made)
        try:
            yield made
        finally:
            self._listeners.discard(made)


async def follow(
    listener: LiveListener, lifetime_s: float, heartbeat_s: float
) -> AsyncIterator[CallRow | None]:
    """Calls as they end, for so many seconds; None where none came for a heartbeat."""
    loop = asyncio.get_running_loop()
    end = loop.time() + lifetime_s
    while (left := end - loop.time()) > 0:
        rows = await listener.calls(min(heartbeat_s, left))
        for row in rows:
            yield row
        if not rows:
            yield None
