"""A ratio over the last seconds, such as failures per call, or retries per call."""

from typing import Final

SLOTS: Final = 10
"""In so many slots a span is counted; the oldest is forgotten as a whole."""


class WindowedRatio:
    """Counts over the last span of seconds, less up to a tenth of it.

    It has no clock of its own. Where the given one stands still nothing is forgotten; where it
    goes back, counts stay until it has caught up, and if it goes back by more than the span all of
    them are forgotten.

    Args:
        span: Seconds, above 0.

    Attributes:
        whole: The sum of the whole, as of the last ``add`` or ``expire``.
        part: The sum of the part, likewise.
    """

    __slots__ = ("_at", "_parts", "_per_second", "_wholes", "part", "whole")

    def __init__(self, span: float) -> None:
        self._per_second = SLOTS / span
        self._at = 0
        self.reset()

    def add(self, whole: int, part: int, now: float) -> None:
        """Count both, once what is too old by now is forgotten."""
        tick = int(now * self._per_second)
        if tick != self._at:
            self._turn(tick)
        self.whole += whole
        self.part += part

    def expire(self, now: float) -> None:
        """Forget what is too old by now."""
        tick = int(now * self._per_second)
        if tick != self._at:
            self._turn(tick)

    def reset(self) -> None:
        """Forget everything."""
        self._wholes = [0] * SLOTS
        self._parts = [0] * SLOTS
        self.whole = self.part = 0

    def _turn(self, tick: int) -> None:
        passed = tick - self._at
        if -SLOTS <= passed < 0:
            return
        if not 0 < passed < SLOTS:
            self.reset()
        else:
            self._keep(self._at % SLOTS)
            for step in range(self._at + 1, tick + 1):
                slot = step % SLOTS
                self.whole -= self._wholes[slot]
                self.part -= self._parts[slot]
                self._wholes[slot] = self._parts[slot] = 0
        self._at = tick

    def _keep(self, slot: int) -> None:
        """Note what was counted in this slot, which ends: all that is in no other."""
        self._wholes[slot] = self._parts[slot] = 0
        self._wholes[slot] = self.whole - sum(self._wholes)
        self._parts[slot] = self.part - sum(self._parts)
