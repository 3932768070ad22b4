"""A call's clock: its arrival, its waits, and its first content."""

from collections.abc import Callable


class WaitTimer:
    """A block whose time counts as waited; such blocks do not nest."""

    __slots__ = ("_now", "_since", "seconds")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._since = self._now()

    def __exit__(self, *_: object) -> None:
        self.seconds += self._now() - self._since


class Timeline:
    """A call's time, in seconds of a monotonic clock.

    Attributes:
        waiting: A block in which the upstream or the caller is waited for.
        ttft: From arrival to the first content byte; None while there is none.
    """

    __slots__ = ("now", "started", "ttft", "waiting")

    def __init__(self, ticks: Callable[[], float]) -> None:
        self.now = ticks
        self.started = ticks()
        self.ttft: float | None = None
        self.waiting = WaitTimer(ticks)

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for the upstream and the caller."""
        return self.waiting.seconds

    def mark_first_content(self) -> None:
        """Mark the first content byte, once."""
        if self.ttft is None:
            self.ttft = self.now() - self.started
