"""Circuit breaker: a route that fails gets no calls for a while, then one probe.

::

              5 failures or broken answers in a row, or most of 20 and more in 30 s
    CLOSED ───────────────────────────────────────────────────────▶ OPEN ◀─┐
       ▲                                              30 s · ejections │    │ it fails:
       │                                                 (≤ 5 min) ▼    │ one more ejection
       └────────────────────── the probe succeeds ───────────── HALF_OPEN ──┘

Closed, a breaker admits every call; open, none; half open, one at a time, the probe. Each minute
closed forgives one ejection.

An answer counts as a success once it begins, so that a probe need not end first. One that breaks
after that is a failure all the same, and only an answer that ends well ends a row of these: a
route that begins each answer and ends none is as good as dead.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeVar

from slo.windowed_ratio import WindowedRatio

CONSECUTIVE_FAILURES: Final = 5
"""Failures without a success between them that open a breaker; Envoy's consecutive_5xx."""

FAILURE_WINDOW_S: Final = 30.0
"""Seconds in which calls and failures are counted."""

MIN_CALLS: Final = 20
"""Calls in the span from which on their share of failures counts."""

BASE_EJECTION_S: Final = 30.0
"""Seconds that a breaker is open the first time; Envoy's base_ejection_time."""

MAX_EJECTION_S: Final = 300.0
"""Seconds that it is open at most; Envoy's max_ejection_time."""

FORGIVE_EJECTION_AFTER_S: Final = 60.0
"""Seconds closed that take one ejection back."""

PROBE_TIMEOUT_S: Final = 60.0
"""Seconds after which another probe may go though the last one has not ended."""

_NEVER: Final = float("-inf")
_R = TypeVar("_R")


class BreakerState(StrEnum):
    """The state of a circuit breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


class CircuitBreaker:
    """One route's. It has no clock of its own: one that stands still keeps it as it is.

    Where the clock goes back, a wait begins anew at most, and is never longer than it was.

    Attributes:
        ejections: Number of times it opened, less what was forgiven; its next opening counts from
            here.
    """

    __slots__ = (
        "_broken_in_a_row", "_changed", "_in_a_row", "_probe", "_recent", "_until", "_wait",
        "ejections",
    )  # fmt: skip

    def __init__(self) -> None:
        self._recent = WindowedRatio(FAILURE_WINDOW_S)
        self._in_a_row = 0
        self._broken_in_a_row = 0
        self._changed = _NEVER
        self._wait = 0.0
        self._until: float | None = None
        self._probe: float | None = None
        self.ejections = 0

    def state(self, now: float) -> BreakerState:
        """The breaker's state now."""
        if self._until is None:
            return BreakerState.CLOSED
        return (
            BreakerState.OPEN if self._rewound(self._until, now) > now else BreakerState.HALF_OPEN
        )

    def seconds_until_admission(self, now: float) -> float:
        """Seconds until it admits a call, if nothing else happens; 0 if it does so now."""
        if self._until is None:
            return 0.0
        left = self._rewound(self._until, now) - now
        if left <= 0 and self._probe is not None:
            left = self._probe + PROBE_TIMEOUT_S - now
        return max(left, 0.0)

    def admits(self, now: float) -> bool:
        """True if a call may go now. ``record_outcome`` has to be said of each that does.

        Half open, True takes the probe's place: no other call is admitted until the call has ended,
        or for ``PROBE_TIMEOUT_S`` seconds.
        """
        if self._until is None:
            return True
        if self.seconds_until_admission(now) > 0:
            return False
        self._probe = now
        return True

    def record_outcome(self, now: float, *, ok: bool | None, began: float | None = None) -> None:
        """Count how a call went that this breaker admitted, or that was sent here regardless.

        A call that began before the breaker opened or closed for the last time says nothing: of
        200 calls in flight 5 open it, and the others' failures are no news.

        Args:
            ok: True if the route did its part; None where the call says nothing about the route,
                such as one that was wrong in itself, or whose caller hung up.
            began: The time that ``admits`` was asked with. None is read as after the last change
                if closed, as the probe if half open, and as before it if open.
        """
        if self._until is None:
            if ok is not None:
                self._was_counted(now, began, ok=ok)
            return
        is_open = self._rewound(self._until, now) > now
        if is_open if began is None else began <= self._changed:
            return
        if ok:
            self._close(now)
        elif ok is None:
            if self._probe is not None and (began is None or began >= self._probe):
                self._probe = None
        elif not is_open:
            self._eject(now)

    def record_end(self, now: float, *, ok: bool, began: float) -> None:
        """Count how an answer ended whose beginning was counted as a success.

        Args:
            ok: False if it broke.
            began: Time at which it was counted; what was before the last change says nothing.
        """
        if self._until is not None or began < self._changed:
            return
        if ok:
            self._broken_in_a_row = 0
            return
        self._broken_in_a_row += 1
        self._recent.add(0, 1, now)  # the call itself was counted when it began
        self._eject_if_failing(now, self._broken_in_a_row)

    def _was_counted(self, now: float, began: float | None, *, ok: bool) -> None:
        if began is not None and began < self._changed:
            self._changed = min(self._changed, now)
            return
        recent = self._recent
        if ok:
            self._in_a_row = 0
            recent.add(1, 0, now)
            return
        self._in_a_row += 1
        recent.add(1, 1, now)
        self._eject_if_failing(now, self._in_a_row)

    def _eject_if_failing(self, now: float, in_a_row: int) -> None:
        recent = self._recent
        is_mostly_failing = recent.whole >= MIN_CALLS and recent.part * 2 > recent.whole
        if is_mostly_failing or in_a_row >= CONSECUTIVE_FAILURES:
            self._forgive(now)
            self._eject(now)

    def _forgive(self, now: float) -> None:
        if self.ejections:
            forgiven = int(max(now - self._changed, 0.0) // FORGIVE_EJECTION_AFTER_S)
            self.ejections = max(self.ejections - forgiven, 0)

    def _eject(self, now: float) -> None:
        self.ejections = min(self.ejections + 1, int(MAX_EJECTION_S // BASE_EJECTION_S))
        self._wait = BASE_EJECTION_S * self.ejections
        self._until = now + self._wait
        self._changed = now
        self._probe = None

    def _close(self, now: float) -> None:
        self._until = self._probe = None
        self._changed = now
        # _broken_in_a_row stays: only an answer that ends well ends it, not a probe that begins.
        self._in_a_row = 0
        self._recent.reset()

    def _rewound(self, until: float, now: float) -> float:
        """Until when it is open; every time is where a clock that went back still reaches it."""
        self._changed = min(self._changed, now)
        self._until = min(until, now + self._wait)
        if self._probe is not None:
            self._probe = min(self._probe, now)
        return self._until


def order_routes(routes: Iterable[tuple[_R, CircuitBreaker]], now: float) -> list[_R]:
    """The routes to try, in the order given: those whose breakers admit a call now.

    Where none does, the one that admits soonest, alone; [] only for no routes. It takes no probe's
    place: ``admits`` is asked when a route's turn comes. A route that is passed over then, for
    another call has become its probe, is tried regardless if no other was.
    """
    waits = [(breaker.seconds_until_admission(now), route) for route, breaker in routes]
    if not waits:
        return []
    ready = [route for wait, route in waits if wait <= 0]
    return ready or [min(waits, key=lambda wait: wait[0])[1]]
