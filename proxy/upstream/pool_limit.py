"""Limits the calls in flight at an upstream, and queues those that wait for a slot."""

import asyncio
from typing import Final

from proxy.upstream.port import cancellation_before_send


class PoolLimit:
    """Limits the connections in use at once; waiting calls are served in order."""

    __slots__ = ("_free", "_queue")

    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: dict[asyncio.Future[None], None] = {}

    def try_acquire(self) -> bool:
        """Acquire a free connection slot; False if there is none."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def wait_for_turn(self) -> None:
        """Wait for a slot that is released, and acquire it.

        Raises:
            CancelledError: It was cancelled meanwhile, and nothing was sent.
        """
        turn = asyncio.get_running_loop().create_future()
        self._queue[turn] = None
        try:
            with UNSENT_IF_CANCELLED:
                await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot was given just now
                self.release()
            raise
        finally:
            self._queue.pop(turn, None)

    def release(self) -> None:
        """Release a slot to the caller that has waited longest."""
        for turn in self._queue:
            if not turn.done():
                del self._queue[turn]
                turn.set_result(None)
                return
        self._free += 1


class _UnsentIfCancelled:
    """Lets who cancels its block know that nothing was sent."""

    def __enter__(self) -> None:
        """Nothing is sent yet."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, asyncio.CancelledError):
            raise cancellation_before_send() from error


UNSENT_IF_CANCELLED: Final = _UnsentIfCancelled()
