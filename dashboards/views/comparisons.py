"""Periods that a period is compared with or forecast from: their buckets and names."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import count
from typing import Final, Literal

from dashboards.cost_reports import known_sum, next_month
from dashboards.report_periods import TimeBuckets, period_before, time_buckets
from dashboards.reports import ReportPeriod
from dashboards.views.costs import FORECAST_DAYS, MonthForecast, month_forecast

Comparison = Literal["previous", "month"]
"""``previous`` is as long and ends where the period begins, ``month`` the same days a month ago."""

_DAY: Final = timedelta(days=1)
_QUARTER_S: Final = 900
_DASH: Final = "–"  # noqa: RUF001 - the sign of ranges


def compared_period(period: ReportPeriod, comparison: Comparison) -> ReportPeriod:
    """The earlier period that a period is compared with; both are apart.

    Before whole months come as many whole months. The same days a month ago are those of the last
    month before which is apart from the period, as far as it has them.
    """
    if comparison == "previous" or _is_whole_months(period.first, period.end):
        return period_before(period)
    last = period.end - _DAY
    months = next(n for n in count(1) if _months_ago(last, n) < period.first)
    first, end = _months_ago(period.first, months), _months_ago(last, months) + _DAY
    return ReportPeriod(first=first, end=end, zone=period.zone)


def begun_part(period: ReportPeriod, today: date) -> ReportPeriod:
    """The days of a period up to today; all of one that is over, or has not begun."""
    end = min(period.end, today + _DAY)
    return replace(period, end=end) if end > period.first else period


def compared_bounds(
    period: ReportPeriod, earlier: ReportPeriod, now: float | None
) -> tuple[int, int]:
    """Bounds of the earlier period: of one of as many days that goes on, to the nearest quarter.

    Rollups are by quarters of an hour. Of a single day that has just begun there is none: the
    bounds are one moment, and nothing can be compared.

    Args:
        now: Seconds since the epoch; None for whole days.
    """
    (start, end), (midnight, midnight_after) = earlier.bounds, period.days[-1].bounds
    if now is None or not midnight <= now < midnight_after:
        return start, end
    if len(period.days) != len(earlier.days):
        return start, end
    quarters = round((now - midnight) / _QUARTER_S)
    return start, min(end, earlier.days[-1].bounds[0] + quarters * _QUARTER_S)


def compared_edges(
    buckets: TimeBuckets, period: ReportPeriod, earlier: ReportPeriod
) -> tuple[int, ...]:
    """Edges of the earlier buckets that stand for those of a period, the first for the first.

    An hour stands for the one as long after its day's midnight, also where clocks change: an hour
    that the earlier day lacks is empty, and the last one has what is left of the day.
    """
    days = zip(period.days, earlier.days, strict=False)
    if buckets.unit == "hour":
        return (*_hours_of(buckets, days), earlier.bounds[1])
    if buckets.unit != "week":
        return time_buckets(earlier, buckets.unit).edges
    starts = [
        before.bounds[0]
        for place, (day, before) in enumerate(days)
        if not place or day.first.weekday() == 0
    ]
    return (*starts, earlier.bounds[1])


def _hours_of(
    buckets: TimeBuckets, days: Iterable[tuple[ReportPeriod, ReportPeriod]]
) -> Iterator[int]:
    """The beginnings of earlier hours, by the days of both periods."""
    for (start, end), (before, before_end) in ((day.bounds, other.bounds) for day, other in days):
        hours = (hour for hour in buckets.starts if start <= hour < end)
        yield from (min(before + hour - start, before_end) for hour in hours)


class MonthForecasts:
    """Forecasts of a day's month, all by the costs between the same edges.

    Args:
        now: Seconds since the epoch, up to whose quarter of an hour the last day a month ago is
            compared; None for all of it.

    Attributes:
        edges: Edges of the buckets that they are made of.
    """

    def __init__(self, today: date, zone: str, now: float | None = None) -> None:
        month = ReportPeriod(first=today.replace(day=1), end=today + _DAY, zone=zone)
        self._before = compared_period(month, "month")
        # Days of UTC are what rollups hold; a mean of four needs no other.
        past = ReportPeriod(first=today - timedelta(days=FORECAST_DAYS), end=today, zone="UTC")
        before = compared_bounds(month, self._before, now)
        bounds = [month.bounds, month.days[-1].bounds, before, *(day.bounds for day in past.days)]
        self.edges = sorted({edge for part in bounds for edge in part})
        places = {edge: place for place, edge in enumerate(self.edges)}
        self._has_before = before[0] < before[1]
        self._today, self._days = today, [day.first for day in past.days]
        self._parts = [slice(*(places[edge] for edge in part)) for part in bounds]

    def of(self, nanos: Sequence[int | None]) -> MonthForecast:
        """The forecast by the costs of the buckets, None for unknown."""
        month, today, before, *past = (known_sum(nanos[part]) for part in self._parts)
        by_day = list(zip(self._days, past, strict=True))
        return replace(
            month_forecast(self._today, month, today or 0, by_day),
            before_nanos=before if self._has_before else None,
            before_first=self._before.first,
            before_last=self._before.days[-1].first,
        )


def comparison_name(first: date, last: date, before_first: date, before_last: date) -> str:
    """The earlier period in words, such as ``previous 30 days`` or ``15 November``."""
    end, before_end, days = last + _DAY, before_last + _DAY, (last - first).days + 1
    if _is_whole_months(first, end) and _is_whole_months(before_first, before_end):
        is_one = next_month(before_first) == before_end
        return (
            f"{before_first:%B %Y}" if is_one else f"{before_first:%B} {_DASH} {before_last:%B %Y}"
        )
    if before_end == first and (before_end - before_first).days == days:
        return "previous day" if days == 1 else f"previous {days} days"
    if before_first == before_last:
        return f"{before_first.day} {before_first:%B}"
    if f"{before_first:%Y-%m}" == f"{before_last:%Y-%m}":
        return f"{before_first.day}{_DASH}{before_last.day} {before_last:%B}"
    return f"{before_first.day} {before_first:%B} {_DASH} {before_last.day} {before_last:%B}"


def known_part(before_first: date, before_last: date, first_call: date | None) -> str:
    """The part of an earlier period that begins before the first call; "" where all is known.

    Of a period that ended before, it begins with ``no``.
    """
    if first_call is None or first_call <= before_first:
        return ""
    start = "no calls known before" if first_call > before_last else "of which calls are known from"
    return f"{start} {first_call.day} {first_call:%b}"


def _is_whole_months(first: date, end: date) -> bool:
    return first.day == end.day == 1 and first < end


def _months_ago(day: date, months: int) -> date:
    """The same day so many months before; the last of that month where it has no such day."""
    index = day.year * 12 + day.month - 1 - months
    first = date(index // 12, index % 12 + 1, 1)
    return min(first.replace(day=1) + timedelta(days=day.day - 1), next_month(first) - _DAY)
