"""Leases: a part of a counter that a process reserves ahead, so that calls need no round trip.

To the counter a lease is a reservation like any other: what it holds, no other process can have.
Within it the process reserves and settles by itself, and reports what was spent now and then::

    reserve, settle ── here, while the lease covers it and was renewed not long ago
    report ─────────── spent: becomes spent of the counter, the lease shrinks by as much
                       keep:  what the lease is never lowered below; until the answer comes the
                              process uses no more than this
                       want:  what it may be raised to, within a part of what is free
    release ────────── a report that keeps what running calls hold, and wants nothing

A report has a serial number, and what it says was spent has a number of its own: one that is sent
again counts once, and one that arrives after a later one changes nothing. What could not be
reported in time is given up, as a settlement is: the ledger knows it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from slo.budgets.counter import CounterClaim, CounterLevel

MAX_LEASE_DIVISOR: Final = 16
"""One lease holds at most this fraction of a counter's free amount: 1 / 16."""

MIN_LEASED_CALLS: Final = 8
"""Calls that a lease must cover; where it cannot, calls reserve one by one."""

VALID_S: Final = 4.0
"""Seconds after a report was sent for which its answer lets calls pass."""

IDLE_S: Final = 5.0
"""Seconds without a call after which a lease is released."""

REPORT_DEADLINE_S: Final = 9.0
"""Seconds after which what was spent is not reported any more: less than the ledger waits."""

_PEAK_FACTOR: Final = 2  # as much as was held at once, so many times
_REPORT_FACTOR: Final = 12  # and what was spent between two reports, so many times
_DECAY_FACTOR: Final = 0.8  # how much of either is remembered at the next report


class LeaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """A lease's report to its counter.

    Attributes:
        serial: Grows with each report; one that is not larger than the last is ignored.
        number: Identifies ``spent``: an amount with a number that was counted is not counted again.
        spent: By the second, since 1970, in which the attempts ended.
        floor: Amount that calls hold, or have spent beside ``spent``: held whatever happened.
        keep: Least that the lease holds if it is still there.
        want: Amount that it may hold, within its share of the free amount.
        least: Least share with which the lease is made or raised.
        is_new: True if a lease that is not there may be made.
        running: For how many calls it holds.
        limit: The counter's; None where nothing is refused.
        ends: End of the counter's window, in seconds since 1970.
    """

    counter: str
    serial: int
    number: int
    spent: Mapping[int, int]
    floor: int
    keep: int
    want: int
    least: int
    is_new: bool
    running: int
    limit: int | None
    ends: float


class LeaseRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """The counter's answer to a report.

    Attributes:
        is_valid: True if calls may be reserved within the lease: it was there or could be made, and
            the counters are whole.
        amount: Amount that the lease holds now.
        level: The counter, the lease included.
        running: For how many calls it holds something, this process's included.
    """

    is_valid: bool
    amount: int
    level: CounterLevel
    running: int


class Lease:
    """One process's lease of one counter.

    Times are in seconds of a clock that never goes back, but where since 1970 is said.
    """

    __slots__ = (
        "_biggest", "_ends", "_hard", "_is_new", "_limit", "_number", "_others", "_others_running",
        "_peak", "_rate", "_recent", "_sent", "_spent", "_total", "_unmet", "_until", "_used_at",
        "amount", "held", "running",
    )  # fmt: skip

    def __init__(self, claim: CounterClaim, level: CounterLevel, now: float) -> None:
        self.amount = self.held = self.running = 0
        self._hard, self._limit, self._ends = claim.hard, claim.limit, claim.ends
        self._biggest, self._used_at = claim.amount, now
        #: By the second since 1970 in which calls ended, and the second of the lease's own clock.
        self._spent: dict[tuple[int, int], int] = {}
        self._total = self._recent = self._number = 0
        self._sent: dict[tuple[int, int], int] | None = None
        self._others, self._others_running = level, 0
        self._peak, self._rate, self._unmet = claim.amount, 0, 0
        self._until = float("-inf")
        self._is_new = True

    @property
    def level(self) -> CounterLevel:
        """The counter as it was when last heard, and what this process did since."""
        reported = sum(self._sent.values()) if self._sent else 0
        spent = self._others.spent + self._total + reported
        return CounterLevel(spent, self._others.held + self.held)

    @property
    def all_running(self) -> int:
        """For how many calls the counter holds something, by the same knowledge."""
        return self._others_running + self.running

    def is_over(self, now: float) -> bool:
        """True if nothing is left to hold or to report, and no call has come for long."""
        is_used = self.running or self._spent or self.amount or self._sent is not None
        return not is_used and now >= self._used_at + IDLE_S

    def fits(self, claim: CounterClaim, now: float) -> bool:
        """True if a claim can be held within the lease.

        Half of the amount that is free outside the lease must stay free by the claim's own limit:
        other processes may have reserved some of it since the counter was last read.
        """
        self._used_at = now
        self._limit = max(self._limit, claim.limit)
        self._biggest = max(self._biggest, claim.amount)
        if now >= self._until:
            return False
        if not claim.hard:
            return True
        if self.held + self._total + claim.amount > self.amount:
            self._unmet += claim.amount
            return False
        in_use = self._others.spent + self._others.held + self.amount
        return 2 * (claim.limit - in_use) >= self._limit - in_use

    def add_hold(self, amount: int) -> None:
        """Hold this amount for a call."""
        self.held += amount
        self.running += 1
        self._peak = max(self._peak, self.held)

    def settle(self, hold: int, spent: int, now: float, second: int) -> None:
        """Let go of what a call held, and count what it spent.

        Args:
            second: Since 1970, in which it ended.
        """
        self.held -= hold
        self.running -= 1
        if spent:
            ended = (second, int(now))
            self._spent[ended] = self._spent.get(ended, 0) + spent
            self._total += spent
            self._recent += spent

    def report(
        self, counter: str, serial: int, now: float, *, is_last: bool = False
    ) -> LeaseReport:
        """The next report to the counter; until it answers, no more than ``keep`` is used.

        Args:
            serial: Larger than those of all reports before it.
        """
        self._forget(now)
        if self._sent is None:
            self.amount -= self._total
            self._sent, self._spent = self._spent, {}
            self._number, self._total = serial, 0
        least = MIN_LEASED_CALLS * self._biggest
        want = 0 if is_last else self._wanted_amount(now, least)
        floor = self.held + self._total
        self.amount = max(min(self.amount, want), floor)
        return LeaseReport(
            counter=counter,
            serial=serial,
            number=self._number,
            spent=_by_second(self._sent),
            floor=floor,
            keep=self.amount,
            want=want,
            least=least,
            is_new=self._is_new,
            running=self.running,
            limit=self._limit if self._hard else None,
            ends=self._ends,
        )

    def renew(self, report: LeaseReport, renewal: LeaseRenewal, sent_at: float) -> None:
        """Take the counter's answer to a report that was sent then."""
        self._sent = None
        self.amount = renewal.amount
        self._is_new = not renewal.is_valid
        self._until = sent_at + VALID_S if renewal.is_valid else float("-inf")
        level = renewal.level
        self._others = CounterLevel(level.spent, level.held - renewal.amount)
        self._others_running = max(renewal.running - report.running, 0)

    def _forget(self, now: float) -> None:
        """Give up what should have been reported long ago, whatever the time since 1970 says."""
        since = int(now) - REPORT_DEADLINE_S
        for spent in (self._spent, self._sent or {}):
            for key in [key for key in spent if key[1] < since]:
                amount = spent.pop(key)
                self._total -= amount if spent is self._spent else 0

    def _wanted_amount(self, now: float, least: int) -> int:
        """The amount that the lease should hold, by what recent calls needed; 0 to release it."""
        self._peak = max(self.held, int(self._peak * _DECAY_FACTOR))
        self._rate = max(self._recent, int(self._rate * _DECAY_FACTOR))
        needs = max(_PEAK_FACTOR * (self._peak + self._unmet) + _REPORT_FACTOR * self._rate, least)
        self._biggest = int(self._biggest * _DECAY_FACTOR)
        self._recent = self._unmet = 0
        if not self._hard or now >= self._used_at + IDLE_S:
            return 0
        share = (self._limit - self._others.spent - self._others.held) // MAX_LEASE_DIVISOR
        return 0 if share < least else min(needs, share)


def _by_second(spent: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """The amounts by the second since 1970 alone."""
    sums: dict[int, int] = {}
    for (second, _), amount in spent.items():
        sums[second] = sums.get(second, 0) + amount
    return sums
