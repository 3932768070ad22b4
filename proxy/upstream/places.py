"""Number of calls an upstream gets at once, and the queue of those that wait for their turn."""

import asyncio
from typing import Final

from proxy.upstream.port import Unsent


class Places:
    """So many places; who finds one free does not wait, and others are served in turn."""

    __slots__ = ("_free", "_queue")

    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: dict[asyncio.Future[None], None] = {}

    def take(self) -> bool:
        """Take a free place, or say that there is none."""
        if self._free == 0:
            return False
        self._free -= 1
        return True

    async def turn(self) -> None:
        """Wait for a place that somebody leaves, and take it.

        Raises:
            Unsent: If it was cancelled meanwhile.
        """
        turn = asyncio.get_running_loop().create_future()
        self._queue[turn] = None
        try:
            with NOT_YET:
                await turn
        except Unsent:
            if not turn.cancelled():  # the place was given just now
                self.leave()
            raise
        finally:
            self._queue.pop(turn, None)

    def leave(self) -> None:
        """Leave a place to whoever has waited longest."""
        for turn in self._queue:
            if not turn.done():
                del self._queue[turn]
                turn.set_result(None)
                return
        self._free += 1


class _Sending:
    """Lets who cancels its block know that nothing was sent."""

    def __enter__(self) -> None:
        """Nothing is sent yet."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, asyncio.CancelledError):
            raise Unsent from error


NOT_YET: Final = _Sending()
