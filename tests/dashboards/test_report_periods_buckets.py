from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.report_periods import period_before, time_buckets
from dashboards.reports import ReportPeriod


def a_period(first: date, days: int, zone: str = "UTC") -> ReportPeriod:
    return ReportPeriod(first=first, end=first + timedelta(days=days), zone=zone)


@given(
    first=st.dates(date(2000, 1, 1), date(2090, 1, 1)),
    days=st.integers(1, 100),
    unit=st.sampled_from(["day", "week", "month"]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]),
)
def test_buckets_fill_their_period_in_whole_quarters(first, days, unit, zone) -> None:
    period = a_period(first, days, zone)
    buckets = time_buckets(period, unit)

    assert (buckets.edges[0], buckets.edges[-1]) == period.bounds
    assert all(before < after for before, after in pairwise(buckets.edges))
    assert all(edge % 900 == 0 for edge in buckets.edges)


def test_days_are_as_long_as_they_are_there() -> None:
    clocks_go_back = a_period(date(2026, 10, 24), 3, "Europe/Berlin")

    starts = time_buckets(clocks_go_back, "day").edges
    assert [after - before for before, after in pairwise(starts)] == [86_400, 90_000, 86_400]
    assert len(time_buckets(clocks_go_back, "hour").starts) == 73


def test_weeks_begin_on_monday_and_months_on_the_first() -> None:
    period = a_period(date(2026, 10, 29), 10)

    weeks = [
        datetime.fromtimestamp(start, UTC).date() for start in time_buckets(period, "week").starts
    ]
    months = [
        datetime.fromtimestamp(start, UTC).date() for start in time_buckets(period, "month").starts
    ]
    assert weeks == [date(2026, 10, 29), date(2026, 11, 2)]
    assert months == [date(2026, 10, 29), date(2026, 11, 1)]


@pytest.mark.parametrize(
    ("days", "unit"),
    [(1, "hour"), (3, "day"), (62, "day"), (63, "week"), (370, "week"), (371, "month")],
)
def test_a_unit_suits_the_length_of_its_period(days: int, unit: str) -> None:
    assert time_buckets(a_period(date(2026, 1, 1), days)).unit == unit


def test_too_many_buckets_are_refused() -> None:
    with pytest.raises(ValueError, match="30 days are too many for buckets of one hour"):
        time_buckets(a_period(date(2026, 1, 1), 30), "hour")
    with pytest.raises(ValueError, match="at least one day"):
        time_buckets(a_period(date(2026, 1, 1), 0))


def test_the_period_before_is_as_long_in_days_or_in_months() -> None:
    march = ReportPeriod(first=date(2026, 3, 1), end=date(2026, 4, 1), zone="UTC")
    january = ReportPeriod(first=date(2026, 1, 1), end=date(2026, 2, 1), zone="UTC")

    assert period_before(march).first == date(2026, 2, 1)
    assert period_before(january).first == date(2025, 12, 1)
    assert period_before(a_period(date(2026, 3, 2), 7)) == a_period(date(2026, 2, 23), 7)
