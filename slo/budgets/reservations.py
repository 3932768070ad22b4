"""Reservations against counters: held before a call, settled after it, never more than the limit.

A counter belongs to one budget, one spender and one window.

::

    reserve ── Refused                     nothing is held anywhere
       └────── Granted ─┬─ settle          each hold goes, what was spent is added
                        ├─ extend          each hold ends later
                        └─ (nothing)       each hold goes at its end

Counters that were lost are restored from a ledger: a checkpoint is a second, and a counter is what
the ledger knows of attempts that ended before it, plus what was settled of later ones.

A store that processes share keeps the same state by the same rules (``proxy.store``).
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

import msgspec

from slo.budgets.counter import (
    Counter,
    CounterClaim,
    CounterLevel,
    ReservationRefused,
    check_amount,
)

COUNTER_RETENTION_S: Final = 3600.0
"""Seconds for which a counter outlives its window, for calls that end after it."""

UNKNOWN_WINDOW_RETENTION_S: Final = 40 * 86_400.0
"""Seconds for which a counter without a known window is kept."""

MAX_SETTLED_REMEMBERED: Final = 200_000
"""Number of settled reservations are remembered, so that none is settled twice."""

SETTLED_MEMORY_S: Final = 86_400.0
"""Seconds for which a settled reservation is remembered at most."""

CHECKPOINT_TTL_S: Final = 900.0
"""Seconds after which a checkpoint is forgotten."""

_GONE: Final = float("-inf")


class ReservationGranted(msgspec.Struct, frozen=True):
    """All claims are held.

    Attributes:
        levels: The claims' counters afterwards, in their order.
        running: For how many reservations each of them holds something then.
    """

    levels: tuple[CounterLevel, ...]
    running: tuple[int, ...] = ()


class Reservations:
    """All counters of one process, and what is held of them.

    Every time is in seconds since 1970. A reservation has a name, which is unique to the attempt it
    is for: saying the same thing twice does it once.

    Args:
        capacity: Most counters kept at once. Beyond it those whose windows end first are
            forgotten, and begin at 0 again if they are asked for.

    Attributes:
        forgotten: Number of counters forgotten before their windows had ended.
    """

    def __init__(self, capacity: int = 1_000_000) -> None:
        self._most = capacity
        self._counters: dict[str, Counter] = {}
        self._lasts: list[tuple[float, str]] = []
        self._settled: dict[str, float] = {}
        self._checkpoint: int | None = None
        self.forgotten = 0

    def reserve(
        self, name: str, claims: Sequence[CounterClaim], now: float, until: float
    ) -> ReservationGranted | ReservationRefused:
        """Hold every claim until then, or none.

        What is held or was settled under this name already stays as it is, and is granted.

        Raises:
            ValueError: If two claims are for the same counter.
        """
        check_distinct_counters(claims)
        counters = [self._counter(claim.counter, now, claim.ends) for claim in claims]
        for counter in counters:
            counter.sweep(now)
        is_held = any(name in counter.holds for counter in counters)
        if not (is_held or self._is_settled(name, now)):
            refusals = [
                refused
                for number, claim in enumerate(claims)
                if (refused := counters[number].refuses(claim, number))
            ]
            if refusals:
                return min(refusals, key=lambda refused: refused.frees is not None)
            for counter, claim in zip(counters, claims, strict=True):
                counter.add_hold(name, claim.amount, until)
        return ReservationGranted(
            tuple(counter.level for counter in counters),
            tuple(len(counter.holds) for counter in counters),
        )

    def settle(
        self, name: str, amounts: Mapping[str, int], now: float, ended: float | None = None
    ) -> bool:
        """Add what was spent of each counter and let go of what was held there.

        It is added also where the hold has come to its end, or never was. A counter that is left
        out keeps its hold.

        Args:
            amounts: By counter, those that the reservation was made on: of the window in which
                the call was admitted.
            ended: End of the attempt, as the ledger has it; now where it is None.

        Returns:
            False, and nothing changes, where the reservation was settled before.

        Raises:
            ValueError: If an amount is out of bounds.
        """
        for amount in amounts.values():
            check_amount(amount)
        if self._is_settled(name, now):
            return False
        self._remember(name, now)
        checkpoint = self.current_checkpoint(now)
        for counter_name, amount in amounts.items():
            counter = self._counter(counter_name, now)
            counter.sweep(now)
            counter.release_hold(name)
            counter.spend(amount, now if ended is None else ended, checkpoint)
        return True

    def extend(self, name: str, counters: Sequence[str], now: float, until: float) -> bool:
        """Let the reservation end later, never earlier; False if a hold has already gone."""
        extended = [
            counter is not None and counter.extend_hold(name, until)
            for counter in self._sweep(counters, now)
        ]
        return all(extended)

    def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        """The level of each counter; an unused one is at 0."""
        existing = self._sweep(counters, now)
        return [counter.level if counter else CounterLevel(0, 0) for counter in existing]

    def correct(self, counter: str, spent: int, now: float) -> int:
        """Set the amount spent, and return the former one. Holds stay.

        Raises:
            ValueError: If the amount is out of bounds.
        """
        check_amount(spent)
        state = self._counter(counter, now)
        before, state.spent = state.spent, spent
        return before

    def begin_checkpoint(self, now: float, within: float) -> int:
        """The next second, from which on what is settled is kept apart; or one begun ``within``."""
        before = self.current_checkpoint(now)
        if before is None or now > before + within:
            before = self._checkpoint = int(now) + 1
        return before

    def current_checkpoint(self, now: float) -> int | None:
        """The checkpoint, in seconds since 1970; None where there is none, or it is long ago."""
        before = self._checkpoint
        return None if before is None or now >= before + CHECKPOINT_TTL_S else before

    def restore(
        self, amounts: Mapping[str, int], checkpoint: int, now: float, *, exactly: bool
    ) -> list[int]:
        """Let counters have spent this before a checkpoint, and what was settled of later attempts.

        What each said before is returned; nothing changes where there is another checkpoint.

        Args:
            amounts: By counter, what attempts used that ended before the checkpoint.
            checkpoint: As it was begun.
            exactly: True if counters that say more are lowered, too.

        Raises:
            ValueError: If an amount is out of bounds.
        """
        for amount in amounts.values():
            check_amount(amount)
        if self.current_checkpoint(now) != checkpoint:
            return [level.spent for level in self.levels(list(amounts), now)]
        return [
            self._counter(name, now).restore(amount, checkpoint, exactly=exactly)
            for name, amount in amounts.items()
        ]

    def _sweep(self, counters: Sequence[str], now: float) -> list[Counter | None]:
        existing = [self._counters.get(name) for name in counters]
        for counter in existing:
            if counter:
                counter.sweep(now)
        return existing

    def _is_settled(self, name: str, now: float) -> bool:
        return self._settled.get(name, _GONE) > now - SETTLED_MEMORY_S

    def _remember(self, name: str, now: float) -> None:
        self._settled.pop(name, None)
        self._settled[name] = now
        if len(self._settled) > MAX_SETTLED_REMEMBERED:
            del self._settled[next(iter(self._settled))]

    def _counter(self, name: str, now: float, ends: float | None = None) -> Counter:
        """The counter of this name; it is made, and others forgotten, if need be."""
        counter = self._counters.get(name)
        retention = UNKNOWN_WINDOW_RETENTION_S if ends is None else COUNTER_RETENTION_S
        last = max(ends or now, now) + retention
        if counter is None:
            self._make_room(now)
            counter = self._counters[name] = Counter(last)
            heappush(self._lasts, (last, name))
        elif ends is not None:
            if last < counter.last:
                heappush(self._lasts, (last, name))
            counter.last = last
        return counter

    def _make_room(self, now: float) -> None:
        while self._lasts and (self._lasts[0][0] <= now or len(self._counters) >= self._most):
            last, name = heappop(self._lasts)
            counter = self._counters.get(name)
            if counter and counter.last > last:
                heappush(self._lasts, (counter.last, name))
            elif counter:
                del self._counters[name]
                self.forgotten += last - COUNTER_RETENTION_S > now


def check_distinct_counters(claims: Sequence[CounterClaim]) -> None:
    """Checks that every claim is for a counter of its own.

    Raises:
        ValueError: Two are for the same.
    """
    if len({claim.counter for claim in claims}) < len(claims):
        counters = [claim.counter for claim in claims]
        raise ValueError(f"two claims of one reservation are for the same counter: {counters}")
