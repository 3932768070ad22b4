"""A period cut into hours, days, weeks or months of its time zone."""

from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Final, Literal

from dashboards.reports import ReportPeriod

BucketUnit = Literal["hour", "day", "week", "month"]
"""The length of a bucket; a week begins on Monday."""

_HOUR_S: Final = 3_600
#: Days of the longest period that is cut into each unit, the shortest unit first.
_MAX_DAYS: Final[dict[BucketUnit, int]] = {"hour": 8, "day": 100, "week": 800, "month": 3_700}
#: Days of the longest period that is cut so where nobody asks for a unit.
_USUAL_DAYS: Final[dict[BucketUnit, int]] = {"hour": 2, "day": 62, "week": 370}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBuckets:
    """Buckets that fill a period; the first and the last may be parts of a week or month.

    Attributes:
        unit: Their length.
        edges: The beginning of each, and the end of the last, in seconds since the epoch.
    """

    unit: BucketUnit
    edges: tuple[int, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """The beginning of each, in seconds since the epoch."""
        return self.edges[:-1]


def time_buckets(period: ReportPeriod, unit: BucketUnit | None = None) -> TimeBuckets:
    """The buckets of a period.

    Args:
        period: Whole days; at least one.
        unit: Their length; None for one that suits the period.

    Raises:
        ValueError: The period has no day, or is too long for the unit.
    """
    days = (period.end - period.first).days
    if days < 1:
        raise ValueError("a period has at least one day")
    chosen = unit or _usual_unit(days)
    if days > _MAX_DAYS[chosen]:
        raise ValueError(
            f"{days} days are too many for buckets of one {chosen}, which allow"
            f" {_MAX_DAYS[chosen]}; ask for longer buckets or a shorter period"
        )
    return TimeBuckets(unit=chosen, edges=_edges(period, chosen))


def period_before(period: ReportPeriod) -> ReportPeriod:
    """The period of the same length that ends where this one begins.

    Before whole months come as many whole months, before other days as many days.
    """
    months = (period.end.year - period.first.year) * 12 + period.end.month - period.first.month
    if period.first.day == period.end.day == 1 and months:
        index = period.first.year * 12 + period.first.month - 1 - months
        first = date(index // 12, index % 12 + 1, 1)
    else:
        first = period.first - (period.end - period.first)
    return ReportPeriod(first=first, end=period.first, zone=period.zone)


def _usual_unit(days: int) -> BucketUnit:
    return next((unit for unit, most in _USUAL_DAYS.items() if days <= most), "month")


def _edges(period: ReportPeriod, unit: BucketUnit) -> tuple[int, ...]:
    start, end = period.bounds
    if unit == "hour":
        return (*range(start, end, _HOUR_S), end)
    days = (period.first + timedelta(days=n) for n in range((period.end - period.first).days))
    firsts = [day for day in days if day == period.first or _begins(day, unit)]
    ends = [*firsts[1:], period.end]
    parts = (
        ReportPeriod(first=first, end=last, zone=period.zone)
        for first, last in zip(firsts, ends, strict=True)
    )
    edges = [start, *(part.bounds[1] for part in parts)]
    return (edges[0], *(after for before, after in pairwise(edges) if after > before))


def _begins(day: date, unit: BucketUnit) -> bool:
    """True if a bucket of this unit begins on a day."""
    if unit == "week":
        return day.weekday() == 0
    return unit == "day" or day.day == 1
