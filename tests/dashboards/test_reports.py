from datetime import date
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.reports import ReportPeriod
from tests.fakes.spend_reports import a_spend

DATES = st.dates(date(2000, 1, 1), date(2100, 1, 1))
ZONES = st.sampled_from(sorted(available_timezones()))


@given(first=DATES, days=st.integers(0, 40), zone=ZONES)
def test_the_days_of_a_period_follow_each_other_and_fill_it(
    first: date, days: int, zone: str
) -> None:
    period = ReportPeriod(first=first, end=date.fromordinal(first.toordinal() + days), zone=zone)
    bounds = [day.bounds for day in period.days]

    assert len(bounds) == days
    assert [end for _, end in bounds[:-1]] == [start for start, _ in bounds[1:]]
    if bounds:
        assert (bounds[0][0], bounds[-1][1]) == period.bounds


@given(first=DATES, zone=ZONES)
def test_every_day_in_every_zone_begins_on_a_quarter_of_an_hour(first: date, zone: str) -> None:
    start, _ = ReportPeriod(first=first, end=first, zone=zone).bounds

    assert start % 900 == 0


@pytest.mark.parametrize(
    ("day", "zone", "hours"),
    [
        (date(2026, 3, 29), "Europe/Berlin", 23),
        (date(2026, 10, 25), "Europe/Berlin", 25),
        (date(2026, 10, 4), "Australia/Lord_Howe", 23.5),
        (date(2026, 6, 1), "Asia/Kathmandu", 24),
    ],
)
def test_a_day_is_as_long_as_it_is_there(day: date, zone: str, hours: float) -> None:
    start, end = ReportPeriod(
        first=day, end=date.fromordinal(day.toordinal() + 1), zone=zone
    ).bounds

    assert (end - start) / 3600 == hours


def test_a_period_that_ends_before_it_begins_cannot_exist() -> None:
    with pytest.raises(ValueError, match="cannot end on 2026-01-01"):
        ReportPeriod(first=date(2026, 1, 2), end=date(2026, 1, 1), zone="UTC")


@pytest.mark.parametrize("refused", [0, 30])
def test_calls_that_got_no_answer_do_not_make_1000_calls_cheaper(refused: int) -> None:
    spend = a_spend(calls=5 + refused, attempts=9 + refused, answered=4, errors=1, cost_nanos=80)

    assert (spend.nanos_per_1k_calls, spend.nanos_per_1k_attempts) == (20_000, 10_000)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "europe/"])
def test_a_zone_must_exist(zone: str) -> None:
    with pytest.raises(ValueError, match="no time zone is called"):
        ReportPeriod(first=date(2026, 1, 1), end=date(2026, 1, 2), zone=zone)
