"""The periods of scheduled cost reports: whole weeks and months of a time zone, by name."""

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from dashboards.cost_reports import next_month
from dashboards.reports import ReportPeriod
from slo.policies.reports import ReportInterval

_WEEK: Final = timedelta(days=7)
_NAMES: Final = {
    ReportInterval.WEEK: re.compile(r"\d{4}-W\d{2}"),
    ReportInterval.MONTH: re.compile(r"\d{4}-\d{2}"),
}
#: An example of a period's name.
PERIOD_EXAMPLES: Final = {ReportInterval.WEEK: "2026-W47", ReportInterval.MONTH: "2026-11"}


def last_period(every: ReportInterval, zone: str, at: float) -> ReportPeriod:
    """The last whole period that had ended at a moment.

    Args:
        every: The length.
        zone: An IANA name.
        at: Seconds since the epoch.
    """
    end = _first_day(every, datetime.fromtimestamp(at, ZoneInfo(zone)).date())
    return _period(every, _first_day(every, end - timedelta(days=1)), zone)


def current_period(every: ReportInterval, zone: str, at: float) -> ReportPeriod:
    """The period that a moment is in.

    Args:
        every: The length.
        zone: An IANA name.
        at: Seconds since the epoch.
    """
    return _period(every, last_period(every, zone, at).end, zone)


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


def is_over(period: ReportPeriod, at: float) -> bool:
    """True if a period had ended at a moment, in seconds since the epoch."""
    return period.bounds[1] <= at


def _period(every: ReportInterval, first: date, zone: str) -> ReportPeriod:
    end = first + _WEEK if every is ReportInterval.WEEK else next_month(first)
    return ReportPeriod(first=first, end=end, zone=zone)


def _first_day(every: ReportInterval, day: date) -> date:
    """The first day of the period that a day is in."""
    if every is ReportInterval.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1)
