"""A clock that does not leap: the wall clock, checked against ticks and against a shared clock.

Budgets count in calendar windows, so a wall clock that leaps would open windows early, or go back
to those that had ended. This clock goes on by its ticks and follows the wall clock so::

    gap to the wall clock        no shared clock                  with one
    up to TOLERANCE_S            a tenth faster or slower         the same, towards the shared one
    back                         a tenth slower                   a tenth slower if both say so
    forward                      at once, after BELIEVED_AFTER_S  at once if both say so

So time never goes back, and neither does a window. A leap that is taken back within a minute is
never seen. Processes that share a clock agree on the window whatever their own wall clocks say.
"""

from collections.abc import Callable
from typing import Final

import msgspec

#: Seconds of difference that are no leap.
TOLERANCE_S: Final = 2.0
#: Seconds for which a leap forward has to last where no shared clock confirms it.
BELIEVED_AFTER_S: Final = 60.0
#: By how much of the time that passes the clock catches up, or falls back.
SLEW: Final = 0.1
#: Seconds for which it goes on by its ticks alone, as slowly as it ever goes, before it looks at
#: the wall clock again.
_BETWEEN_LOOKS_S: Final = 0.005


class _State(msgspec.Struct, frozen=True):
    """A reading; replaced as one, so that threads may read at once."""

    time: float
    ticks: float
    ahead_since: float | None = None


class SteadyClock:
    """Seconds since the epoch that never go back.

    Args:
        wall: The wall clock, in seconds since the epoch.
        ticks: Seconds of a clock that goes on evenly.
    """

    def __init__(self, wall: Callable[[], float], ticks: Callable[[], float]) -> None:
        self._wall = wall
        self._ticks = ticks
        self._state = _State(wall(), ticks())
        self._shared: float | None = None

    def __call__(self) -> float:
        """The time."""
        ticks, state = self._ticks(), self._state
        if 0.0 <= (passed := ticks - state.ticks) < _BETWEEN_LOOKS_S:
            return state.time + (1 - SLEW) * passed
        return self._look(state, ticks)

    def _look(self, state: _State, ticks: float) -> float:
        """The time, by the wall clock and by the shared one."""
        wall = self._wall()
        passed = max(ticks - state.ticks, 0.0)
        expected = state.time + passed
        gap, is_confirmed = self._gap(wall - expected, ticks - expected)
        since = None
        if gap > TOLERANCE_S:
            since = ticks if state.ahead_since is None else state.ahead_since
            is_confirmed = is_confirmed or ticks - since >= BELIEVED_AFTER_S
        if gap <= TOLERANCE_S or not is_confirmed:
            max_step = SLEW * passed
            gap = 0.0 if gap > TOLERANCE_S else min(max(gap, -max_step), max_step)
        self._state = _State(expected + gap, max(ticks, state.ticks), since)
        return expected + gap

    def compare(self, shared: float) -> None:
        """Note what a shared clock says now; the first time, it is believed as it is."""
        ticks = self._ticks()
        if self._shared is None:
            self._state = _State(shared, ticks)
        self._shared = shared - ticks

    def _gap(self, to_wall: float, ticks_less_expected: float) -> tuple[float, bool]:
        """The seconds to catch up, and whether a shared clock confirms them."""
        if self._shared is None:
            return to_wall, False
        to_shared = self._shared + ticks_less_expected
        if abs(to_shared) <= TOLERANCE_S:
            return to_shared, True
        if to_wall * to_shared > 0 and abs(to_wall) > TOLERANCE_S:
            return min(to_wall, to_shared, key=abs), True
        return 0.0, False
