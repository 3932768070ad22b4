"""One counter: what was spent of a limit, and what is held of it for calls still under way.

A hold has an end: a process that dies without settling gives it back. What was spent is kept apart
from what is held, so nothing that leaks stays spent.
"""

from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

MAX_AMOUNT: Final = 2**53 - 1
"""The largest amount and limit; nano-dollars up to 9 million dollars, exact in every store."""

_GONE: Final = float("-inf")


class CounterClaim(msgspec.Struct, frozen=True):
    """A claim on one counter.

    Attributes:
        counter: Name of the counter; it says the window, too.
        amount: Amount to hold, in the counter's unit: 0 to ``MAX_AMOUNT``.
        limit: Most that may be spent and held at once: 0 to ``MAX_AMOUNT``.
        hard: True if what goes over the limit is refused; else it is only counted.
        ends: End of the counter's window, in seconds since 1970.

    Raises:
        ValueError: If the amount or the limit is out of bounds.
    """

    counter: str
    amount: int
    limit: int
    hard: bool
    ends: float

    def __post_init__(self) -> None:
        check_amount(self.amount)
        check_amount(self.limit)


class CounterLevel(msgspec.Struct, frozen=True):
    """The amount spent of a counter, and the amount held."""

    spent: int
    held: int


class ReservationRefused(msgspec.Struct, frozen=True):
    """Nothing is held.

    Attributes:
        claim: The number of the claim that is over its limit; one that is used up is named before
            one that others only hold.
        level: Its counter, as it stands.
        frees: End of the first hold of that counter, in seconds since 1970, if the claim is over
            the limit for what is held alone; None if waiting for holds cannot help.
        running: For how many reservations the counter holds something.
    """

    claim: int
    level: CounterLevel
    frees: float | None
    running: int = 0


class Counter:
    """The amount spent, the holds by reservation, and the counter's end."""

    __slots__ = ("base", "checkpoint", "held", "holds", "last", "later", "queue", "spent")

    def __init__(self, last: float) -> None:
        self.last = last
        self.spent = 0
        self.held = 0
        self.holds: dict[str, tuple[int, float]] = {}
        self.queue: list[tuple[float, str]] = []
        self.checkpoint: int | None = None
        self.base: int | None = None
        self.later = 0

    @property
    def level(self) -> CounterLevel:
        """The amounts spent and held."""
        return CounterLevel(self.spent, self.held)

    def add_hold(self, name: str, amount: int, until: float) -> None:
        """Hold an amount until then."""
        self.held += amount
        self.holds[name] = (amount, until)
        heappush(self.queue, (until, name))
        if len(self.queue) > 2 * len(self.holds) + 64:
            self.queue = [(end, name) for name, (_, end) in self.holds.items()]
            heapify(self.queue)

    def release_hold(self, name: str) -> None:
        """Let go of a hold, if it is there."""
        amount, _ = self.holds.pop(name, (0, 0.0))
        self.held -= amount

    def extend_hold(self, name: str, until: float) -> bool:
        """Let a hold end later, never earlier; False if it is not there."""
        if name not in self.holds:
            return False
        amount, before = self.holds[name]
        self.holds[name] = (amount, max(before, until))
        return True

    def sweep(self, now: float) -> None:
        """Free what has come to its end; the queue then begins with the next hold to end."""
        while self.queue:
            end, name = self.queue[0]
            _, until = self.holds.get(name, (0, _GONE))
            if until == end and now < end:
                return
            heappop(self.queue)
            if until <= now:
                self.release_hold(name)
            else:
                heappush(self.queue, (until, name))

    def spend(self, amount: int, ended: float, checkpoint: int | None) -> None:
        """Add what an attempt used, unless the ledger that restored the counter knew it."""
        if checkpoint is not None:
            self._follow(checkpoint)
            if ended >= checkpoint:
                self.later += amount
            elif self.base is not None:
                return
        self.spent += amount

    def restore(self, amount: int, checkpoint: int, *, exactly: bool) -> int:
        """Set what was spent before a checkpoint, or lift it; what the counter said before."""
        self._follow(checkpoint)
        self.base = max(self.base or 0, amount)
        before, total = self.spent, self.base + self.later
        self.spent = total if exactly else max(before, total)
        return before

    def _follow(self, checkpoint: int) -> None:
        if self.checkpoint != checkpoint:
            self.checkpoint, self.base, self.later = checkpoint, None, 0

    def refuses(self, claim: CounterClaim, number: int) -> ReservationRefused | None:
        """The refusal of a claim that does not fit; None where it does."""
        if not claim.hard or self.spent + self.held + claim.amount <= claim.limit:
            return None
        fits_alone = self.spent + claim.amount <= claim.limit
        frees = self.queue[0][0] if fits_alone else None
        return ReservationRefused(number, self.level, frees, len(self.holds))


def check_amount(amount: int) -> None:
    """Checks that every store counts this amount exactly.

    Raises:
        ValueError: It is below 0 or above ``MAX_AMOUNT``.
    """
    if not 0 <= amount <= MAX_AMOUNT:
        raise ValueError(f"an amount or limit of {amount} is not between 0 and {MAX_AMOUNT}")
