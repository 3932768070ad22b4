"""Where a call's time went."""

from collections.abc import Callable


class Timeline:
    """A call's time, in seconds of a monotonic clock.

    Attributes:
        started: The clock when the call arrived.
        waited: How long the upstream and the caller were waited for.
        first: From arrival to the first content byte; None while there is none.
    """

    __slots__ = ("_waiting", "first", "now", "started", "waited")

    def __init__(self, ticks: Callable[[], float]) -> None:
        self.now = ticks
        self.started = ticks()
        self.waited = 0.0
        self.first: float | None = None
        self._waiting = Waiting(self)

    def begun(self) -> None:
        """Mark the first content byte, once."""
        if self.first is None:
            self.first = self.now() - self.started

    def waiting(self) -> "Waiting":
        """A block whose time counts as waited; such blocks do not nest."""
        return self._waiting


class Waiting:
    """Adds the time of its block to what its timeline has waited."""

    __slots__ = ("_since", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def __enter__(self) -> None:
        self._since = self._timeline.now()

    def __exit__(self, *_: object) -> None:
        self._timeline.waited += self._timeline.now() - self._since
