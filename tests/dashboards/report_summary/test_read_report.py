from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from dashboards.report_summary.read_report import ReadReport
from dashboards.reports import ReportPeriod
from tests.fakes.read_reports import a_read_report, costs_of


def read_at(first: date, end: date, now: datetime, zone: str = "UTC") -> ReadReport:
    period = ReportPeriod(first=first, end=end, zone=zone)
    read = a_read_report(period, ("feature",), (), costs=costs_of(period))
    return replace(read, read_at=now.timestamp())


@pytest.mark.parametrize(
    ("first", "end", "has_forecast"),
    [
        (date(2026, 11, 1), date(2026, 11, 27), True),
        (date(2026, 11, 1), date(2026, 12, 1), True),
        (date(2026, 11, 1), date(2026, 11, 26), False),
        (date(2026, 11, 1), date(2026, 12, 2), False),
        (date(2026, 11, 2), date(2026, 11, 27), False),
        (date(2026, 10, 1), date(2026, 11, 1), False),
        (date(2026, 10, 1), date(2026, 11, 27), False),
    ],
)
def test_only_a_report_of_this_month_up_to_today_or_later_has_a_forecast(
    first: date, end: date, *, has_forecast: bool
) -> None:
    noon = datetime(2026, 11, 26, 12, tzinfo=UTC)

    assert (read_at(first, end, noon).forecast is not None) == has_forecast


def test_the_month_of_a_forecast_is_that_of_the_reports_time_zone() -> None:
    late = datetime(2026, 11, 30, 20, tzinfo=UTC)
    first, end = date(2026, 12, 1), date(2026, 12, 2)

    assert read_at(first, end, late, "Asia/Tokyo").forecast is not None
    assert read_at(first, end, late, "UTC").forecast is None


def test_the_earlier_period_has_a_name_for_titles_and_one_behind_in() -> None:
    days = read_at(date(2026, 11, 3), date(2026, 11, 10), datetime(2026, 12, 1, tzinfo=UTC))
    month = read_at(date(2026, 11, 1), date(2026, 12, 1), datetime(2026, 12, 2, tzinfo=UTC))

    assert (days.earlier_name, days.earlier_words) == ("previous 7 days", "the previous 7 days")
    assert (month.earlier_name, month.earlier_words) == ("October 2026", "October 2026")
    assert replace(days, costs=None).earlier_name == ""
