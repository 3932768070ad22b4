"""Where a call's time went."""

from collections.abc import Callable


class Timeline:
    """A call's time, in seconds of a monotonic clock.

    Attributes:
        started: The clock when the call arrived.
        waited: How long the upstream and the caller were waited for.
        first: From arrival to the first content byte; None while there is none.
    """

    __slots__ = ("first", "now", "started", "waited")

    def __init__(self, ticks: Callable[[], float]) -> None:
        self.now = ticks
        self.started = ticks()
        self.waited = 0.0
        self.first: float | None = None

    def begun(self) -> None:
        """Mark the first content byte, once."""
        if self.first is None:
            self.first = self.now() - self.started
