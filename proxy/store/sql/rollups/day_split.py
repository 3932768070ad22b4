"""Days of UTC as parts of buckets, whose edges may lie within a day.

Each day is counted in the bucket that has most of it; the parts of it that belong to others are
strips, which are added to theirs and taken from the one that has the day::

    buckets      |------------- 0 -------------|------------- 1 ----
    days of UTC       |------- day 7 -------|------- day 8 -------|
                 '-+--'                     '-+-----'
                 day 6, but not counted there      day 8, counted in 1, of which these are 0's
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from proxy.store.sql.rollups.rollup_tables import DAYS_PER_WEEK, week_of

_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
#: The bucket of moments before the first edge or after the last one.
OUTSIDE: Final = -1


@dataclass(frozen=True, slots=True)
class DayStrip:
    """A part of a day of UTC that belongs to another bucket than most of the day.

    Attributes:
        day: The day's number since the epoch.
        first: Beginning of the part, in seconds since the epoch.
        last: Its end.
        bucket: The bucket that it belongs to.
        counted_in: The bucket that has most of the day.
    """

    day: int
    first: int
    last: int
    bucket: int
    counted_in: int

    @property
    def has_whole_hours(self) -> bool:
        """True if it can be read by the hour."""
        return not (self.first % _HOUR_S or self.last % _HOUR_S)

    @property
    def hours(self) -> tuple[int, int]:
        """The first hour of its day that it has, and the one after the last."""
        start = self.day * _DAY_S
        return (self.first - start) // _HOUR_S, (self.last - start) // _HOUR_S


@dataclass(frozen=True, slots=True)
class DaySplit:
    """Days of UTC as parts of buckets; -1 is the bucket of what lies outside of all.

    Attributes:
        days: Each day that has a part in a bucket, with the bucket that has most of it.
        strips: Parts of days that belong elsewhere.
    """

    days: tuple[tuple[int, int], ...]
    strips: tuple[DayStrip, ...]


def split_days(edges: Sequence[int]) -> DaySplit:
    """The days of UTC between the first and the last edge, in seconds since the epoch."""
    days, strips = [], []
    for day in range(edges[0] // _DAY_S, -(-edges[-1] // _DAY_S)):
        parts = list(_parts(edges, day * _DAY_S, (day + 1) * _DAY_S))
        most, _, _ = max(parts, key=lambda part: part[2] - part[1])
        days.append((day, most))
        strips += [
            DayStrip(day, first, last, bucket, most)
            for bucket, first, last in parts
            if bucket != most
        ]
    return DaySplit(tuple(days), tuple(strips))


def _parts(edges: Sequence[int], start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The parts of a range that lie in one bucket or outside: bucket, start, end."""
    bounds = [start, *(edge for edge in edges if start < edge < end), end]
    for first, last in pairwise(bounds):
        yield _bucket_of(edges, first), first, last


def _bucket_of(edges: Sequence[int], moment: int) -> int:
    if not edges[0] <= moment < edges[-1]:
        return OUTSIDE
    return sum(edge <= moment for edge in edges) - 1


def whole_weeks(days: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], ...]:
    """Weeks all of whose days are of one bucket, and the days of no such week; with buckets."""
    weeks = defaultdict[tuple[int, int], list[tuple[int, int]]](list)
    for day, bucket in days:
        weeks[week_of(day), bucket].append((day, bucket))
    whole = [week for week, some in weeks.items() if len(some) == DAYS_PER_WEEK]
    rest = [
        numbered_day
        for some in weeks.values()
        if len(some) < DAYS_PER_WEEK
        for numbered_day in some
    ]
    return whole, rest
