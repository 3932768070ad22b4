"""Ids that sort by time."""

import os
from collections.abc import Callable, Iterator

_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62
_BYTES = 10
_AT_ONCE = 256
_RANDOM = ((1 << 12) - 1 << 64) | ((1 << 62) - 1)


def call_ids() -> Callable[[float], str]:
    """Makes new calls' ids: ``call_`` and a UUID version 7 in hex; unique without coordination.

    Randomness is fetched for many ids at once: one system call each would cost more than the id.
    The maker takes the time in seconds since the epoch (UTC).

    Source: RFC 9562, section 5.7 (2024-05).
    """
    chances = _chances()

    def call_id(now: float) -> str:
        return f"call_{_milliseconds(now) << 80 | _VERSION_7 | _VARIANT | next(chances):032x}"

    return call_id


def id_floor(at: float) -> str:
    """The bound between the ids of calls that arrived before ``at`` and all later ones.

    Times are compared in whole milliseconds, rounded down, as in the ids.
    """
    return f"call_{_milliseconds(at) << 80:032x}"


def _chances() -> Iterator[int]:
    while True:
        some = os.urandom(_BYTES * _AT_ONCE)
        for start in range(0, len(some), _BYTES):
            yield int.from_bytes(some[start : start + _BYTES], "big") & _RANDOM


def _milliseconds(at: float) -> int:
    return min(max(int(at * 1000), 0), (1 << 48) - 1)
