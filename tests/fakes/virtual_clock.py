"""An event loop in virtual time: real sockets, and nobody waits in real time.

Its time stands still while anybody has something to do: bytes that have come, a thread's answer
that is due. Once nobody has, it leaps to whatever is to happen next. What runs on it takes no time
at all, so an hour of calls is over as soon as their work is done, and what it measures is what the
upstream's delays and the gateway's own waits come to.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
A = TypeVarTuple("A")

#: Real seconds that a thread is waited for; then time goes on without it.
_THREAD = 10.0
#: Real seconds between two looks whether a thread is still at work.
_LOOK = 0.001


class _Selector(selectors.DefaultSelector):
    """Waits for nothing that can be leapt over."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0
        self.workers: list[Callable[[], bool]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The events that have come; where none has, the timeout is over at once."""
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            return super().select(None)
        # What was sent a moment ago may still be on its way through the kernel.
        events = super().select(_THREAD if self.threads else 0) or self._wait_for_workers()
        if not events:
            self.now += timeout
        return events

    def _wait_for_workers(self) -> list[tuple[selectors.SelectorKey, int]]:
        """The events that come while threads are at work that nobody on the loop waits for."""
        events, until = super().select(0), time.monotonic() + _THREAD
        while not events and any(is_busy() for is_busy in self.workers):
            if time.monotonic() > until:
                break
            events = super().select(_LOOK)
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        self._leaps = _Selector()
        super().__init__(self._leaps)

    def time(self) -> float:
        """Seconds since it was made, as far as anybody on it can tell."""
        return self._leaps.now

    def run_in_executor(
        self, executor: Any, func: Callable[[Unpack[A]], T], *args: *A
    ) -> asyncio.Future[T]:
        """As any loop, but its time waits for the thread."""
        self._leaps.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def wait_for_worker(self, is_busy: Callable[[], bool]) -> None:
        """Let no time pass while this says that a thread is at work."""
        self._leaps.workers.append(is_busy)

    async def shutdown_default_executor(self, _timeout: float | None = None) -> None:
        """As any loop, but without a timeout, which would be over at once in its time."""
        await super().shutdown_default_executor()

    def _thread_ended(self, _: object) -> None:
        self._leaps.threads -= 1


def run_in_virtual_time(story: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of the story, run on a loop of its own in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(story())
