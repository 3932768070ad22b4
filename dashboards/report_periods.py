"""Periods of reports: cut into buckets of time, and whole weeks and months by their names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Final, Literal
from zoneinfo import ZoneInfo

from dashboards.cost_reports import next_month
from dashboards.reports import ReportPeriod
from slo.policies.reports import ReportInterval

BucketUnit = Literal["hour", "day", "week", "month"]
"""The length of a bucket; a week begins on Monday."""

_HOUR_S: Final = 3_600
#: Days of the longest period that is cut into each unit, the shortest unit first.
_MAX_DAYS: Final[dict[BucketUnit, int]] = {"hour": 8, "day": 100, "week": 800, "month": 3_700}
#: Days of the longest period that is cut so where nobody asks for a unit.
_USUAL_DAYS: Final[dict[BucketUnit, int]] = {"hour": 2, "day": 62, "week": 370}
_WEEK: Final = timedelta(days=7)
_NAMES: Final = {
    ReportInterval.WEEK: re.compile(r"\d{4}-W\d{2}"),
    ReportInterval.MONTH: re.compile(r"\d{4}-\d{2}"),
}
#: An example of a period's name.
PERIOD_EXAMPLES: Final = {ReportInterval.WEEK: "2026-W47", ReportInterval.MONTH: "2026-11"}


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
    """The buckets of a period, of a unit that suits it where none is named.

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


def months_between(start: float, end: float, zone: str) -> float:
    """The months from one moment to another, each part by the length of its own month."""
    months, first = 0.0, datetime.fromtimestamp(start, ZoneInfo(zone)).date().replace(day=1)
    while (bounds := ReportPeriod(first=first, end=next_month(first), zone=zone).bounds)[0] < end:
        months += (min(end, bounds[1]) - max(start, bounds[0])) / (bounds[1] - bounds[0])
        first = next_month(first)
    return months


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


def last_period(every: ReportInterval, zone: str, moment: float) -> ReportPeriod:
    """The last whole period that had ended at a moment, in seconds since the epoch."""
    end = _first_day(every, datetime.fromtimestamp(moment, ZoneInfo(zone)).date())
    return _period(every, _first_day(every, end - timedelta(days=1)), zone)


def current_period(every: ReportInterval, zone: str, moment: float) -> ReportPeriod:
    """The period that a moment is in, in seconds since the epoch."""
    return _period(every, last_period(every, zone, moment).end, zone)


def periods_after(after: date, last: ReportPeriod, every: ReportInterval) -> Iterator[ReportPeriod]:
    """The periods that end after a day, up to the last one and with it."""
    first = _first_day(every, after)
    while first < last.end:
        period = _period(every, first, last.zone)
        yield period
        first = period.end


def named_period(every: ReportInterval, name: str, zone: str) -> ReportPeriod:
    """The period with a name: ``2026-W47`` is a week by ISO 8601, ``2026-11`` a month.

    Raises:
        ValueError: There is no such period.
    """
    if not _NAMES[every].fullmatch(name):
        raise ValueError(f"a {every} is written as {PERIOD_EXAMPLES[every]}")
    day = date.fromisoformat(f"{name}-1" if every is ReportInterval.WEEK else f"{name}-01")
    if not 1971 <= day.year < 9000:
        raise ValueError("it is too far away")
    return _period(every, day, zone)


def period_name(period: ReportPeriod) -> str:
    """The name of a whole week or month."""
    if period.end - period.first == _WEEK:
        year, week, _ = period.first.isocalendar()
        return f"{year}-W{week:02d}"
    return period.first.isoformat()[:7]


def _period(every: ReportInterval, first: date, zone: str) -> ReportPeriod:
    end = first + _WEEK if every is ReportInterval.WEEK else next_month(first)
    return ReportPeriod(first=first, end=end, zone=zone)


def _first_day(every: ReportInterval, day: date) -> date:
    """The first day of the period that a day is in."""
    if every is ReportInterval.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1)
