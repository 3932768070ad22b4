"""Counts good and bad calls of late, by key, in slots of ten seconds.

All processes use the same slots, so counts add up: each process moves its increments to a store,
and the process that judges adds up those of all.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final, TypeVar

import msgspec

SLOT_S: Final = 10.0
"""Seconds of a slot. Slots are numbered since 1970."""

MAX_SLOTS_AHEAD: Final = 6
"""By how many slots another process's clock may be ahead of ours before its counts are dropped."""


_Key = TypeVar("_Key")


class GoodBadCounts(msgspec.Struct, frozen=True):
    """Counts of events that were good, and of those that were bad."""

    good: int = 0
    bad: int = 0

    @property
    def n(self) -> int:
        """The number of events."""
        return self.good + self.bad

    @property
    def share(self) -> float:
        """The bad ones' part of all, 0.0 to 1.0; 0.0 of nothing."""
        return self.bad / self.n if self.n else 0.0


class Tally:
    """The counts of one process, or of all whose increments were merged.

    Every time is in seconds since 1970. A clock that goes back makes nothing wrong but the counts
    of the time it passes twice.

    Args:
        max_keys: Most keys kept; beyond it the one that was longest not added to is forgotten.
    """

    def __init__(self, retention_s: float = 600.0, max_keys: int = 10_000) -> None:
        self._slots = ceil(retention_s / SLOT_S)
        self._most = max_keys
        self._rows: dict[str, dict[int, tuple[int, int]]] = {}
        self._fresh: dict[tuple[str, int], tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, key: str, good: int, bad: int, now: float) -> None:
        """Count so many calls, now."""
        slot = slot_of(now)
        row = self._row(key)
        if slot not in row and len(row) > self._slots:
            self._sweep(row, slot)
        _increase(row, slot, good, bad)
        if (key, slot) not in self._fresh and len(self._fresh) >= 2 * self._most:
            del self._fresh[next(iter(self._fresh))]
        _increase(self._fresh, (key, slot), good, bad)

    def counts(self, key: str, now: float, seconds: float) -> GoodBadCounts:
        """The counts of the current slot and those before it, so many seconds in all.

        Args:
            key: Whose; one without additions has no calls.
            seconds: Seconds counted back from now; part of a slot counts as a whole one.
        """
        row = self._rows.get(key)
        if not row:
            return GoodBadCounts()
        last = slot_of(now)
        slot_counts = [
            row[slot] for slot in range(last - ceil(seconds / SLOT_S) + 1, last + 1) if slot in row
        ]
        return GoodBadCounts(
            sum(good for good, _ in slot_counts), sum(bad for _, bad in slot_counts)
        )

    def trailing_counts(self, key: str, now: float, seconds: float) -> tuple[GoodBadCounts, ...]:
        """The counts of the current slot, of it and the one before, and so on.

        Returns:
            As many counts as so many seconds have slots; none of a key without additions.
        """
        row = self._rows.get(key)
        if not row:
            return ()
        last = slot_of(now)
        counts = GoodBadCounts()
        trailing = []
        for slot in range(last, last - ceil(seconds / SLOT_S), -1):
            if slot in row:
                good, bad = row[slot]
                counts = GoodBadCounts(counts.good + good, counts.bad + bad)
            trailing.append(counts)
        return tuple(trailing)

    def drain(self) -> dict[tuple[str, int], tuple[int, int]]:
        """The counts added since the last drain, merges excluded: (key, slot) to (good, bad)."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    def merge(self, increments: Mapping[tuple[str, int], tuple[int, int]]) -> None:
        """Count what another process drained; of a key with too many slots the first ones go."""
        for (key, slot), (good, bad) in increments.items():
            row = self._row(key)
            _increase(row, slot, good, bad)
            if len(row) > 2 * self._slots + MAX_SLOTS_AHEAD:
                del row[min(row)]

    def forget(self, now: float) -> None:
        """Drop the keys and increments that nothing was added to for as long as slots are kept."""
        slot = slot_of(now)
        while self._rows:
            key = next(iter(self._rows))
            self._sweep(self._rows[key], slot)
            if self._rows[key]:
                break
            del self._rows[key]
        while self._fresh and not self._holds((first := next(iter(self._fresh)))[1], slot):
            del self._fresh[first]

    def _row(self, key: str) -> dict[int, tuple[int, int]]:
        """The key's slots; it is then the one last added to."""
        row = self._rows.pop(key, None)
        if row is None:
            row = {}
            if len(self._rows) >= self._most:
                del self._rows[next(iter(self._rows))]
        self._rows[key] = row
        return row

    def _sweep(self, row: dict[int, tuple[int, int]], slot: int) -> None:
        for old_slot in [old_slot for old_slot in row if not self._holds(old_slot, slot)]:
            del row[old_slot]

    def _holds(self, candidate: int, slot: int) -> bool:
        return slot - self._slots < candidate <= slot + MAX_SLOTS_AHEAD


def slot_of(time: float) -> int:
    """The number of the slot that this time is in."""
    return int(time // SLOT_S)


def _increase(counts: dict[_Key, tuple[int, int]], key: _Key, good: int, bad: int) -> None:
    before_good, before_bad = counts.get(key, (0, 0))
    counts[key] = (before_good + good, before_bad + bad)
