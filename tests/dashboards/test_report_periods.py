from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.report_periods import (
    current_period,
    last_period,
    months_between,
    named_period,
    period_name,
    periods_after,
)
from slo.policies.reports import ReportInterval

WEEK, MONTH = ReportInterval.WEEK, ReportInterval.MONTH


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_the_last_week_ends_on_monday_in_its_own_time_zone() -> None:
    now = moment("2026-11-22T23:30:00")  # Sunday in UTC, Monday in Berlin

    assert period_name(last_period(WEEK, "UTC", now)) == "2026-W46"
    assert period_name(last_period(WEEK, "Europe/Berlin", now)) == "2026-W47"


def test_the_last_month_is_over_in_its_own_time_zone() -> None:
    now = moment("2026-12-01T01:00:00")

    assert period_name(last_period(MONTH, "UTC", now)) == "2026-11"
    assert period_name(last_period(MONTH, "America/New_York", now)) == "2026-10"


def test_the_current_period_is_the_one_that_a_moment_is_in() -> None:
    now = moment("2026-12-01T01:00:00")

    assert period_name(current_period(MONTH, "UTC", now)) == "2026-12"
    assert period_name(current_period(MONTH, "America/New_York", now)) == "2026-11"
    assert period_name(current_period(WEEK, "UTC", now)) == "2026-W49"


def test_periods_that_were_missed_are_found_in_order() -> None:
    last = last_period(WEEK, "UTC", moment("2026-11-25T00:00:00"))

    missed = periods_after(date(2026, 11, 2), last, WEEK)
    assert [period_name(period) for period in missed] == ["2026-W45", "2026-W46", "2026-W47"]
    assert list(periods_after(last.end, last, WEEK)) == []


def test_months_count_by_their_own_lengths() -> None:
    start = moment("2026-09-16T00:00:00")

    assert months_between(moment("2026-10-01T00:00:00"), moment("2026-12-01T00:00:00"), "UTC") == 2
    assert months_between(start, moment("2026-11-04T00:00:00"), "UTC") == 0.5 + 1 + 3 / 30
    assert months_between(start, start, "Europe/Berlin") == 0


def test_a_month_that_weeks_reported_in_part_is_reported_whole() -> None:
    last = last_period(MONTH, "UTC", moment("2026-12-02T00:00:00"))

    assert [period_name(period) for period in periods_after(date(2026, 11, 23), last, MONTH)] == [
        "2026-11"
    ]


@given(st.sampled_from(ReportInterval), st.floats(1e9, 4e9))
def test_the_last_period_is_whole_over_and_found_by_its_name(
    every: ReportInterval, now: float
) -> None:
    period = last_period(every, "Europe/Berlin", now)

    assert period.bounds[1] <= now
    assert now - period.bounds[1] < 32 * 86_400
    assert named_period(every, period_name(period), "Europe/Berlin") == period
    day_before = period.end - timedelta(days=1)
    assert list(periods_after(day_before, period, every))[-1] == period


@pytest.mark.parametrize(
    ("every", "name"),
    [
        (WEEK, "2026-11"),
        (WEEK, "2026-W54"),
        (MONTH, "2026-W47"),
        (MONTH, "2026-13"),
        (MONTH, "0001-01"),
        (WEEK, "9999-W52"),
    ],
)
def test_a_name_of_no_period_is_refused(every: ReportInterval, name: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        named_period(every, name, "UTC")
