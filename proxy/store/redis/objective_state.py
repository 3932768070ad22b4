"""Limits on the state of objectives that replicas share, in Redis and in one process alike.

Callers write none of its text, but names of objectives and routes are part of it. So every name,
count and number has a limit.
"""

from collections.abc import Collection, Mapping
from math import floor
from typing import Final

from proxy.store.ports import Cell, Count

SLOT_S: Final = 10.0
"""Seconds of a slot; slot 0 begins in 1970."""

RETENTION_S: Final = 7200.0
"""Seconds for which a slot is kept after its end."""

MAX_CLOCK_DRIFT_S: Final = 3600.0
"""Seconds from the store's own time within which a slot must begin to be counted at all."""

MAX_INCREMENT: Final = 2**24
"""Number of of a kind one increment adds at most."""

MAX_KEYS: Final = 1000
"""Number of keys a slot counts, a read asks for, and a publication speaks of."""

MAX_CELLS: Final = 20_000
"""Number of increments one addition has at most, and for how many counts one read asks."""

MAX_NAME_BYTES: Final = 256
"""Bytes of the longest key, and of who leads."""

MAX_STATE_BYTES: Final = 1024
"""Bytes of the longest snapshot."""

MAX_LEASE_S: Final = 300.0
"""Seconds for which one may lead without saying so again."""

MAX_EPOCH: Final = 2**52
"""The largest epoch. Epochs follow the time in milliseconds, so they end after 140,000 years."""


def slot(now: float) -> int:
    """The number of the slot that this time is in."""
    return floor(now / SLOT_S)


def accepts_slot(number: int, now: float) -> bool:
    """True if the slot is counted in at this time."""
    return abs(number * SLOT_S - now) <= MAX_CLOCK_DRIFT_S


def retains_slot(number: int, now: float) -> bool:
    """True if the slot is told of at this time."""
    return (number + 1) * SLOT_S + RETENTION_S > now and number * SLOT_S <= now + MAX_CLOCK_DRIFT_S


def nonzero_increments(increments: Mapping[Cell, Count]) -> Mapping[Cell, Count]:
    """The increments that add anything.

    Raises:
        ValueError: If one is out of bounds, or they are too many.
    """
    _few("increments", len(increments), MAX_CELLS)
    for (key, number), count in increments.items():
        check_name(key)
        if number < 0 or not all(0 <= increment <= MAX_INCREMENT for increment in count):
            raise ValueError(
                f"slot {number} and counts {count} are not between 0 and {MAX_INCREMENT}"
            )
    return {cell: count for cell, count in increments.items() if any(count)}


def slots_to_read(keys: Collection[str], first: int, last: int) -> range:
    """The slots to read.

    Raises:
        ValueError: If a key is out of bounds, or too much is asked for.
    """
    slots = range(max(first, 0), last + 1)
    _few("keys", len(keys), MAX_KEYS)
    _few("counts", len(keys) * len(slots), MAX_CELLS)
    for key in keys:
        check_name(key)
    return slots


def check_states(snapshots: Mapping[str, bytes]) -> None:
    """Nothing, where these may be published.

    Raises:
        ValueError: If one is out of bounds, or they are too many.
    """
    _few("snapshots", len(snapshots), MAX_KEYS)
    for key, state in snapshots.items():
        check_name(key)
        _few("bytes", len(state), MAX_STATE_BYTES)


def check_lease(who: str, seconds: float) -> None:
    """Nothing, where one of this name may lead for so long.

    Raises:
        ValueError: If the name or the seconds are out of bounds.
    """
    check_name(who)
    if not 0 <= seconds <= MAX_LEASE_S:
        raise ValueError(f"{seconds} s is not between 0 and {MAX_LEASE_S} s")


def check_epoch(epoch: int) -> None:
    """Nothing, where an epoch may have this number.

    Raises:
        ValueError: If none has.
    """
    if not 1 <= epoch <= MAX_EPOCH:
        raise ValueError(f"epoch {epoch} is not between 1 and {MAX_EPOCH}")


def check_name(name: str) -> None:
    """Nothing, where this is a name.

    Raises:
        ValueError: If it is empty, too long or no Unicode.
    """
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise ValueError(f"a name has 1 to {MAX_NAME_BYTES} bytes, not {len(name.encode())}")


def _few(what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"{count} {what} are more than {most}")
