"""What the state that replicas share takes and keeps: its bounds, wherever it is kept.

Nothing of it is the caller's own text, but names of promises and routes reach it, so every name,
count and number of them has a bound.
"""

from collections.abc import Collection, Mapping
from math import floor
from typing import Final

SLOT: Final = 10.0
"""Seconds of a slot; slot 0 begins in 1970."""

KEPT: Final = 7200.0
"""Seconds for which a slot is kept after its end."""

DRIFT: Final = 3600.0
"""Seconds from the store's own time within which a slot must begin to be counted at all."""

MOST: Final = 2**24
"""Number of of a kind one increment adds at most."""

MOST_KEYS: Final = 1000
"""Number of keys a slot counts, a read asks for, and a publication speaks of."""

MOST_CELLS: Final = 20_000
"""Number of increments one addition has at most, and for how many counts one read asks."""

LONGEST_NAME: Final = 256
"""Bytes of the longest key, and of who leads."""

LONGEST_SAID: Final = 1024
"""Bytes of the longest standing."""

LONGEST_LEASE: Final = 300.0
"""Seconds for which one may lead without saying so again."""

MOST_EPOCHS: Final = 2**52
"""The largest epoch. Epochs follow the time in milliseconds, so they end after 140,000 years."""

Count = tuple[int, int]
"""Number of were good, and how many bad."""

Cell = tuple[str, int]
"""A key, and a slot's number."""


def slot(now: float) -> int:
    """The number of the slot that this time is in."""
    return floor(now / SLOT)


def is_taken(number: int, now: float) -> bool:
    """True if the slot is counted in at this time."""
    return abs(number * SLOT - now) <= DRIFT


def is_kept(number: int, now: float) -> bool:
    """True if the slot is told of at this time."""
    return (number + 1) * SLOT + KEPT > now and number * SLOT <= now + DRIFT


def countable(increments: Mapping[Cell, Count]) -> Mapping[Cell, Count]:
    """The increments that add anything.

    Raises:
        ValueError: If one is out of bounds, or they are too many.
    """
    _few("increments", len(increments), MOST_CELLS)
    for (key, number), count in increments.items():
        named(key)
        if number < 0 or not all(0 <= each <= MOST for each in count):
            raise ValueError(f"slot {number} and counts {count} are not between 0 and {MOST}")
    return {cell: count for cell, count in increments.items() if any(count)}


def readable(keys: Collection[str], first: int, last: int) -> range:
    """The slots to read.

    Raises:
        ValueError: If a key is out of bounds, or too much is asked for.
    """
    slots = range(max(first, 0), last + 1)
    _few("keys", len(keys), MOST_KEYS)
    _few("counts", len(keys) * len(slots), MOST_CELLS)
    for key in keys:
        named(key)
    return slots


def sayable(standings: Mapping[str, bytes]) -> None:
    """Nothing, where these may be published.

    Raises:
        ValueError: If one is out of bounds, or they are too many.
    """
    _few("standings", len(standings), MOST_KEYS)
    for key, said in standings.items():
        named(key)
        _few("bytes", len(said), LONGEST_SAID)


def leasable(who: str, seconds: float) -> None:
    """Nothing, where one of this name may lead for so long.

    Raises:
        ValueError: If the name or the seconds are out of bounds.
    """
    named(who)
    if not 0 <= seconds <= LONGEST_LEASE:
        raise ValueError(f"{seconds} s is not between 0 and {LONGEST_LEASE} s")


def numbered(epoch: int) -> None:
    """Nothing, where an epoch may have this number.

    Raises:
        ValueError: If none has.
    """
    if not 1 <= epoch <= MOST_EPOCHS:
        raise ValueError(f"epoch {epoch} is not between 1 and {MOST_EPOCHS}")


def named(name: str) -> None:
    """Nothing, where this is a name.

    Raises:
        ValueError: If it is empty, too long or no Unicode.
    """
    if not 0 < len(name.encode()) <= LONGEST_NAME:
        raise ValueError(f"a name has 1 to {LONGEST_NAME} bytes, not {len(name.encode())}")


def _few(what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(f"{count} {what} are more than {most}")
