from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.report_periods import time_buckets
from dashboards.reports import ReportPeriod
from dashboards.views.comparisons import (
    MonthForecasts,
    begun_part,
    compared_bounds,
    compared_edges,
    compared_period,
    comparison_name,
    known_part,
)


def a_period(first: str, last: str, zone: str = "UTC") -> ReportPeriod:
    end = date.fromisoformat(last) + timedelta(days=1)
    return ReportPeriod(first=date.fromisoformat(first), end=end, zone=zone)


@pytest.mark.parametrize(
    ("first", "last", "comparison", "before_first", "before_last", "name"),
    [
        ("2026-12-02", "2026-12-31", "previous", "2026-11-02", "2026-12-01", "previous 30 days"),
        ("2026-12-01", "2026-12-01", "previous", "2026-11-30", "2026-11-30", "previous day"),
        ("2026-12-01", "2026-12-01", "month", "2026-11-01", "2026-11-01", "1 November"),
        ("2026-12-01", "2026-12-15", "month", "2026-11-01", "2026-11-15", "1-15 November"),
        ("2026-11-01", "2026-11-30", "month", "2026-10-01", "2026-10-31", "October 2026"),
        ("2026-11-01", "2026-11-30", "previous", "2026-10-01", "2026-10-31", "October 2026"),
        ("2026-11-01", "2026-12-31", "month", "2026-09-01", "2026-10-31",
         "September - October 2026"),
        ("2026-03-01", "2026-03-30", "month", "2026-02-01", "2026-02-28", "1-28 February"),
        ("2026-11-28", "2026-12-04", "month", "2026-10-28", "2026-11-04",
         "28 October - 4 November"),
    ],
)  # fmt: skip
def test_a_period_is_compared_with_an_earlier_one_that_has_a_name(
    first: str, last: str, comparison, before_first: str, before_last: str, name: str
) -> None:
    period = a_period(first, last)
    earlier = compared_period(period, comparison)
    days = (earlier.first, earlier.days[-1].first)

    assert tuple(map(str, days)) == (before_first, before_last)
    words = comparison_name(period.first, period.days[-1].first, *days)
    assert words.replace("\N{EN DASH}", "-") == name


@pytest.mark.parametrize(
    ("today", "end"),
    [("2026-11-30", "2027-01-01"), ("2026-12-03", "2026-12-04"), ("2027-01-05", "2027-01-01")],
)
def test_days_to_come_are_no_begun_part_of_a_period(today: str, end: str) -> None:
    december = a_period("2026-12-01", "2026-12-31")

    assert begun_part(december, date.fromisoformat(today)) == replace(
        december, end=date.fromisoformat(end)
    )


@given(
    first=st.dates(date(2000, 3, 1), date(2090, 1, 1)),
    days=st.integers(1, 200),
    comparison=st.sampled_from(["previous", "month"]),
)
def test_an_earlier_period_ends_before_its_period_begins(
    first: date, days: int, comparison
) -> None:
    period = ReportPeriod(first=first, end=first + timedelta(days=days), zone="Europe/Berlin")
    earlier = compared_period(period, comparison)

    assert earlier.first < earlier.end <= period.first


@pytest.mark.parametrize("unit", ["hour", "day", "week", "month"])
def test_earlier_buckets_fill_their_period_and_begin_as_far_from_its_start(unit) -> None:
    period = a_period("2026-11-24", "2026-11-30", "Europe/Berlin")
    earlier = compared_period(period, "previous")
    edges = compared_edges(time_buckets(period, unit), period, earlier)
    now = time_buckets(period, unit).edges

    assert (edges[0], edges[-1]) == earlier.bounds
    assert [edge - edges[0] for edge in edges] == [edge - now[0] for edge in now]


@pytest.mark.parametrize(("first", "last_hour"), [("2026-10-24", 24), ("2026-03-28", 22)])
def test_hours_stand_for_those_as_long_after_midnight_although_clocks_changed(
    first: str, last_hour: int
) -> None:
    day = date.fromisoformat(first)
    period = ReportPeriod(first=day, end=day + timedelta(days=3), zone="Europe/Berlin")
    earlier = compared_period(period, "previous")
    buckets = time_buckets(period, "hour")
    edges = compared_edges(buckets, period, earlier)
    before = dict(zip(buckets.starts, edges, strict=False))

    assert len(edges) == len(buckets.edges)
    for (midnight, _), (start, _) in zip(
        [day.bounds for day in period.days], [day.bounds for day in earlier.days], strict=True
    ):
        assert before[midnight] == start
        assert before[midnight + 5 * 3_600] == start + 5 * 3_600
    changed, start = period.days[1].bounds, earlier.days[1].bounds[0]
    assert before[changed[1] - 3_600] == start + last_hour * 3_600


@pytest.mark.parametrize(
    ("minutes", "quarters"), [(7, 0), (8, 1), (59, 4), (119, 8), (13 * 60 + 20, 53), (24 * 60, 96)]
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_period_that_goes_on_is_compared_to_the_same_quarter_of_the_earlier_last_day(
    minutes: int, quarters: int, zone: str
) -> None:
    period = a_period("2026-11-01", "2026-11-15", zone)
    earlier = a_period("2026-10-01", "2026-10-15", zone)
    now = period.days[-1].bounds[0] + 60 * minutes
    start, last_day = earlier.bounds[0], earlier.days[-1].bounds[0]

    assert compared_bounds(period, earlier, now) == (start, last_day + quarters * 900)


def test_month_of_a_few_minutes_is_compared_with_nothing_known() -> None:
    midnight = a_period("2026-11-01", "2026-11-01").bounds[0]
    for seconds, known in ((300, None), (600, 0)):
        forecasts = MonthForecasts(date(2026, 11, 1), "UTC", midnight + seconds)
        assert forecasts.of([0] * (len(forecasts.edges) - 1)).before_nanos == known


def test_period_that_is_over_or_has_another_length_is_compared_with_whole_days() -> None:
    march = a_period("2026-03-01", "2026-03-31")
    february = a_period("2026-02-01", "2026-02-28")
    noon = march.days[-1].bounds[0] + 43_200

    assert compared_bounds(march, february, noon) == february.bounds
    assert compared_bounds(march, march, None) == march.bounds


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_forecasts_of_a_month_sum_the_costs_between_their_edges(zone: str) -> None:
    today = date(2026, 11, 20)
    forecasts = MonthForecasts(today, zone)
    nanos = [*range(len(forecasts.edges) - 1)]
    forecast, unknown = forecasts.of(nanos), forecasts.of([None] * len(nanos))

    def cost(period: ReportPeriod) -> int:
        first, last = period.bounds
        return sum(
            n for start, n in zip(forecasts.edges, nanos, strict=False) if first <= start < last
        )

    assert forecast.spent_nanos == cost(a_period("2026-11-01", "2026-11-20", zone))
    assert forecast.before_nanos == cost(a_period("2026-10-01", "2026-10-20", zone))
    assert (forecast.before_first, forecast.before_last) == (date(2026, 10, 1), date(2026, 10, 20))
    assert (unknown.spent_nanos, unknown.before_nanos) == (None, None)


def test_an_earlier_period_before_the_first_call_says_what_is_known_of_it() -> None:
    october = date(2026, 10, 1), date(2026, 10, 31)

    assert known_part(*october, None) == known_part(*october, date(2026, 10, 1)) == ""
    assert known_part(*october, date(2026, 10, 17)) == "of which calls are known from 17 Oct"
    assert known_part(*october, date(2026, 11, 3)) == "no calls known before 3 Nov"
