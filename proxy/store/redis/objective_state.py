"""Limits on the state of objectives that replicas share, in Redis and in one process alike.

Callers write none of its text, but names of objectives and routes are part of it. So every name,
count and number has a limit.
"""

from collections.abc import Collection, Mapping
from math import floor
from typing import Final

from proxy.store.ports import Cell, Count
from slo.budgets.tally import SLOT_S

RETENTION_S: Final = 7200.0
"""Seconds for which a slot is kept after its end."""

MAX_CLOCK_SKEW_S: Final = 3600.0
"""Seconds from the store's own time within which a slot must begin to be counted at all."""

MAX_INCREMENT: Final = 2**24
"""Largest good or bad count of one increment."""

MAX_KEYS: Final = 1000
"""Number of keys a slot counts, a read asks for, and a publication speaks of."""

MAX_CELLS: Final = 20_000
"""Largest number of counts, each of a key and slot, in one write or read."""

MAX_NAME_BYTES: Final = 256
"""Largest size of a key and of the leader's id."""

MAX_STATE_BYTES: Final = 1024
"""Largest size of a snapshot."""

MAX_LEASE_S: Final = 300.0
"""Longest time to live of the leader's lease."""

MAX_EPOCH: Final = 2**52
"""The largest epoch, the fencing token of a lease. Epochs follow the time in milliseconds."""


def slot(now: float) -> int:
    """The number of the slot that this time is in."""
    return floor(now / SLOT_S)


def accepts_slot(number: int, now: float) -> bool:
    """True if the slot is counted in at this time."""
    return abs(number * SLOT_S - now) <= MAX_CLOCK_SKEW_S


def retains_slot(number: int, now: float) -> bool:
    """True if the slot can still be read at this time."""
    return (number + 1) * SLOT_S + RETENTION_S > now and number * SLOT_S <= now + MAX_CLOCK_SKEW_S


def nonzero_increments(increments: Mapping[Cell, Count]) -> Mapping[Cell, Count]:
    """The increments that add anything.

    Raises:
        ValueError: If one is out of bounds, or they are too many.
    """
    _check_at_most("increments", len(increments), MAX_CELLS)
    for (key, number), count in increments.items():
        check_name(key)
        if number < 0 or not all(0 <= increment <= MAX_INCREMENT for increment in count):
            raise ValueError(
                f"slot {number} is below 0, or counts {count} are not 0 to {MAX_INCREMENT}"
            )
    return {cell: count for cell, count in increments.items() if any(count)}


def slots_to_read(keys: Collection[str], first: int, last: int) -> range:
    """The slots to read.

    Raises:
        ValueError: If a key is out of bounds, or too much is asked for.
    """
    slots = range(max(first, 0), last + 1)
    _check_at_most("keys", len(keys), MAX_KEYS)
    _check_at_most("counts", len(keys) * len(slots), MAX_CELLS)
    for key in keys:
        check_name(key)
    return slots


def check_states(snapshots: Mapping[str, bytes]) -> None:
    """Check that these may be published.

    Raises:
        ValueError: If one is out of bounds, or they are too many.
    """
    _check_at_most("snapshots", len(snapshots), MAX_KEYS)
    for key, state in snapshots.items():
        check_name(key)
        _check_at_most("bytes", len(state), MAX_STATE_BYTES)


def check_lease(who: str, seconds: float) -> None:
    """Check that one of this name may lead for so long.

    Raises:
        ValueError: If the name or the seconds are out of bounds.
    """
    check_name(who)
    if not 0 <= seconds <= MAX_LEASE_S:
        raise ValueError(f"{seconds} s is not between 0 and {MAX_LEASE_S} s")


def check_epoch(epoch: int) -> None:
    """Check that an epoch may have this number.

    Raises:
        ValueError: If it may not.
    """
    if not 1 <= epoch <= MAX_EPOCH:
        raise ValueError(f"epoch {epoch} is not between 1 and {MAX_EPOCH}")


def check_name(name: str) -> None:
    """Check that this is a name.

    Raises:
        ValueError: If it is empty, too long or no Unicode.
    """
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"a name has 1 to {MAX_NAME_BYTES} bytes, not {len(name.encode())}")


def _check_at_most(what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"{count} {what} are more than {most}")
