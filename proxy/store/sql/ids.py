"""Makes ids that sort by time."""

import os
from collections.abc import Callable

#: Digits behind the time; the first is the version, the fifth tells which kind of UUID it is.
_DIGITS = 20
_TIME_DIGITS = 12
_DRAWS_PER_READ = 256
_MAX_MS = (1 << 48) - 1
#: That kind, for any random digit.
_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def call_ids() -> Callable[[float], str]:
    """Makes new calls' ids: ``call_`` and a UUID version 7 in hex; unique without coordination.

    Randomness is fetched for many ids at once: one system call each would cost more than the id.
    The maker takes the time in seconds since the epoch (UTC).

    Source: RFC 9562, section 5.7 (2024-05).
    """
    chances = _chances()

    def call_id(now: float) -> str:
        try:
            chance = chances.pop()
        except IndexError:
            chances.extend(_chances())
            chance = chances.pop()
        return f"call_{_milliseconds(now):012x}{chance}"

    return call_id


def id_floor(moment: float) -> str:
    """The bound between the ids of calls that arrived before ``at`` and all later ones.

    Times are compared in whole milliseconds, rounded down, as in the ids.
    """
    return f"call_{_milliseconds(moment):012x}{'0' * _DIGITS}"


def id_time(call_id: str) -> float:
    """Seconds since the epoch at which a call arrived, to the millisecond."""
    return int(call_id[len("call_") :][:_TIME_DIGITS], 16) / 1_000


def _chances() -> list[str]:
    """The digits behind the time of some ids: version, kind, and random ones."""
    some = os.urandom(_DIGITS // 2 * _DRAWS_PER_READ).hex()
    drawn = [some[start : start + _DIGITS] for start in range(0, len(some), _DIGITS)]
    return [f"7{digits[1:4]}{_VARIANTS[digits[4]]}{digits[5:]}" for digits in drawn]


def _milliseconds(moment: float) -> int:
    whole = int(moment * 1000)
    return whole if 0 <= whole <= _MAX_MS else min(max(whole, 0), _MAX_MS)
