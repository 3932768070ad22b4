"""Time that passes at once: an hour's silence takes a test no longer than a byte."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, moves its clock on to when the loop has something to do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("Everybody waits for somebody else: this test would never end.")
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


class InstantLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run_in_instant_time(work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns, run in time that passes at once."""
    with asyncio.Runner(loop_factory=InstantLoop) as runner:
        return runner.run(work)


def ticks() -> float:
    """The running loop's time, as a call's timeline takes it."""
    return asyncio.get_running_loop().time()


class ManualClock:
    """A clock that shows what it was set to."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
