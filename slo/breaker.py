"""Circuit breaker: a route that fails gets no calls for a while, then one probe.

::

       5 failures or 5 broken answers in a row, or over half of at least 20 calls in 30 s
    CLOSED ───────────────────────────────────────────────────────▶ OPEN ◀─┐
       ▲                                              30 s · ejections │    │ it fails:
       │                                                 (≤ 5 min) ▼    │ one more ejection
       └────────────────────── the probe succeeds ───────────── HALF_OPEN ──┘

Closed, a breaker admits every call; open, none; half open, one call at a time, the probe. Each
minute in the closed state reduces the count of ejections by one.

An answer counts as a success once it begins, so that a probe need not end first. An answer that
breaks after that counts as a failure, too. A row of broken answers ends only with an answer that
ends well: a route that begins each answer and ends none is as good as dead.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeVar

from slo.windowed_ratio import WindowedRatio

CONSECUTIVE_FAILURES: Final = 5
"""Failures in a row, or broken answers in a row, that open it; Envoy's consecutive_5xx."""

FAILURE_WINDOW_S: Final = 30.0
"""Seconds in which calls and failures are counted."""

MIN_CALLS: Final = 20
"""Calls in the window from which on their share of failures counts."""

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
    """The circuit breaker of one route.

    It has no clock of its own; without a call its state follows the time that callers pass. If that
    clock goes back, a running wait may begin again but never becomes longer.

    Attributes:
        ejections: Number of times it opened, less one for each minute closed; the length of the
            next opening grows with it.
    """

    __slots__ = (
        "_broken_in_a_row", "_changed_at", "_in_a_row", "_open_until", "_probe", "_recent", "_wait",
        "ejections",
    )  # fmt: skip

    def __init__(self) -> None:
        self._recent = WindowedRatio(FAILURE_WINDOW_S)
        self._in_a_row = 0
        self._broken_in_a_row = 0
        self._changed_at = _NEVER
        self._wait = 0.0
        self._open_until: float | None = None
        self._probe: float | None = None
        self.ejections = 0

    def state(self, now: float) -> BreakerState:
        """The breaker's state now."""
        if self._open_until is None:
            return BreakerState.CLOSED
        return (
            BreakerState.OPEN
            if self._rewound(self._open_until, now) > now
            else BreakerState.HALF_OPEN
        )

    def seconds_until_admission(self, now: float) -> float:
        """Seconds until it admits a call, if nothing else happens; 0 if it does so now."""
        if self._open_until is None:
            return 0.0
        left = self._rewound(self._open_until, now) - now
        if left <= 0 and self._probe is not None:
            left = self._probe + PROBE_TIMEOUT_S - now
        return max(left, 0.0)

    def admits(self, now: float) -> bool:
        """True if a call may go now; its caller must report it to ``record_outcome``.

        Half open, True takes the probe's place: no other call is admitted until the call has ended,
        or for ``PROBE_TIMEOUT_S`` seconds.
        """
        if self._open_until is None:
            return True
        if self.seconds_until_admission(now) > 0:
            return False
        self._probe = now
        return True

    def record_outcome(self, now: float, *, ok: bool | None, began: float | None = None) -> None:
        """Count the outcome of a call that was admitted, or sent to the open route regardless.

        A call that began before the breaker's last change of state is ignored: of 200 failing
        calls in flight, 5 open it, and the other 195 add nothing.

        Args:
            ok: True if the route did its part; None if the call says nothing about the route,
                such as an invalid one, or one whose caller hung up.
            began: The time passed to ``admits``. None is read as after the last change if closed,
                as the probe if half open, and as before the last change if open.
        """
        if self._open_until is None:
            if ok is not None:
                self._count(now, began, ok=ok)
            return
        is_open = self._rewound(self._open_until, now) > now
        if is_open if began is None else began <= self._changed_at:
            return
        if ok:
            self._close(now)
        elif ok is None:
            if self._probe is not None and (began is None or began >= self._probe):
                self._probe = None
        elif not is_open:
            self._eject(now)

    def record_end(self, now: float, *, ok: bool, began: float) -> None:
        """Count the end of an answer whose beginning was counted as a success.

        Args:
            ok: False if it broke.
            began: Time at which its beginning was counted; ignored if before the last change.
        """
        if self._open_until is not None or began < self._changed_at:
            return
        if ok:
            self._broken_in_a_row = 0
            return
        self._broken_in_a_row += 1
        self._recent.add(0, 1, now)  # the call itself was counted when it began
        self._eject_if_failing(now, self._broken_in_a_row)

    def _count(self, now: float, began: float | None, *, ok: bool) -> None:
        if began is not None and began < self._changed_at:
            self._changed_at = min(self._changed_at, now)
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
            forgiven = int(max(now - self._changed_at, 0.0) // FORGIVE_EJECTION_AFTER_S)
            self.ejections = max(self.ejections - forgiven, 0)

    def _eject(self, now: float) -> None:
        self.ejections = min(self.ejections + 1, int(MAX_EJECTION_S // BASE_EJECTION_S))
        self._wait = BASE_EJECTION_S * self.ejections
        self._open_until = now + self._wait
        self._changed_at = now
        self._probe = None

    def _close(self, now: float) -> None:
        self._open_until = self._probe = None
        self._changed_at = now
        # _broken_in_a_row stays: only an answer that ends well ends it, not a probe that begins.
        self._in_a_row = 0
        self._recent.reset()

    def _rewound(self, until: float, now: float) -> float:
        """Time until which it is open; stored times are lowered if the clock went back."""
        self._changed_at = min(self._changed_at, now)
        self._open_until = min(until, now + self._wait)
        if self._probe is not None:
            self._probe = min(self._probe, now)
        return self._open_until


def order_routes(routes: Iterable[tuple[_R, CircuitBreaker]], now: float) -> list[_R]:
    """The routes to try, in the order given: those whose breakers admit a call now.

    If no breaker does, only the route that admits soonest; [] only for no routes. No probe starts
    here: ``admits`` is asked when a route's turn comes. If another call has become the probe by
    then, the route is skipped, and tried regardless only if no other route was.
    """
    waits = [(breaker.seconds_until_admission(now), route) for route, breaker in routes]
    if not waits:
        return []
    ready = [route for wait, route in waits if wait <= 0]
    return ready or [min(waits, key=lambda wait: wait[0])[1]]
