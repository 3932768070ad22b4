"""Buckets of a latency histogram: four for each doubling, from a millisecond to 17 minutes.

A latency read back as the middle of its bucket is within 9.1 % of the true one; below the first
bound and above the last one it is only known to be there.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

BUCKETS_PER_DOUBLING: Final = 4
_FIRST_MICROS: Final = 1_000
_DOUBLINGS: Final = 20

BOUNDS_MICROS: Final = tuple(
    round(_FIRST_MICROS * 2 ** (n / BUCKETS_PER_DOUBLING))
    for n in range(_DOUBLINGS * BUCKETS_PER_DOUBLING + 1)
)
"""Bounds in microseconds: bucket n holds what is at least bound n-1 and less than bound n."""

#: Part of a latency that its bucket's middle may be off.
MAX_ERROR: Final = 2 ** (1 / (2 * BUCKETS_PER_DOUBLING)) - 1


def bucket_of(micros: int) -> int:
    """The bucket of a latency in microseconds, from 0 to the number of bounds."""
    return bisect_right(BOUNDS_MICROS, micros)


def bucket_seconds(bucket: int) -> float:
    """The middle of a bucket in seconds; the bound where it is open to one side."""
    if bucket <= 0:
        return BOUNDS_MICROS[0] / 1e6
    if bucket >= len(BOUNDS_MICROS):
        return BOUNDS_MICROS[-1] / 1e6
    middle = (BOUNDS_MICROS[bucket - 1] * BOUNDS_MICROS[bucket]) ** 0.5
    return float(middle / 1e6)


def percentiles(counts: Mapping[int, int], percents: Sequence[int]) -> list[float | None]:
    """Seconds that so many of 100 latencies stay at or below, by nearest rank; None without any.

    Args:
        percents: Each from 1 to 100.
    """
    total = sum(counts.values())
    if not total:
        return [None] * len(percents)
    latencies: list[float | None] = []
    for percent in percents:
        rank, passed = -(-total * percent // 100), 0
        for bucket in sorted(counts):
            passed += counts[bucket]
            if passed >= rank:
                latencies.append(bucket_seconds(bucket))
                break
    return latencies
