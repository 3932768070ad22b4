from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.cost_reports import (
    CostSums,
    cost_report,
    known_sum,
    months_of,
    next_month,
    usd_decimal,
)
from dashboards.reports import ReportPeriod
from slo.usage import Usage
from tests.fakes.spend_reports import SpendReports, a_spend

PERIOD = ReportPeriod(first=date(2026, 10, 20), end=date(2026, 11, 3), zone="Europe/Berlin")
START = PERIOD.bounds[0]


def test_rows_sum_the_calls_that_have_their_values() -> None:
    reports = SpendReports(
        (START, a_spend(team="b", feature="x")),
        (START, a_spend(team="a", feature="y")),
        (START + 1, a_spend(team="b", feature="x", cost_nanos=1)),
    )
    report = cost_report(reports, PERIOD, ("feature", "team"))

    assert [(row.values, row.sums.cost_nanos) for row in report.rows] == [
        (("x", "b"), 8),
        (("y", "a"), 7),
    ]
    assert report.total.cost_nanos == 15
    assert report.total.tokens == 30


def test_a_dimension_that_comes_twice_counts_once() -> None:
    report = cost_report(SpendReports((START, a_spend())), PERIOD, ("team", "day", "team"))

    assert report.by == ("team", "day")
    assert [row.values for row in report.rows] == [("t1", "2026-10-20")]


def test_days_are_read_one_by_one_and_months_one_by_one() -> None:
    days, months, once = SpendReports(), SpendReports(), SpendReports()
    cost_report(days, PERIOD, ("month", "day"))
    cost_report(months, PERIOD, ("month",))
    cost_report(once, PERIOD, ("team",))

    assert [len(reports.periods) for reports in (days, months, once)] == [14, 2, 1]


def test_a_sum_is_unknown_only_where_nothing_of_it_is_known() -> None:
    assert known_sum([None, 5, 0]) == 5
    assert known_sum([None, 0]) is None
    assert known_sum([0]) == known_sum([]) == 0


def test_an_unknown_cost_is_none_and_never_nothing() -> None:
    unpriced = a_spend(team="u", unpriced=1, list_nanos=None, cost_nanos=None)
    reports = SpendReports((START, unpriced), (START, a_spend(team="p")))
    report = cost_report(reports, PERIOD, ("team",))

    assert [(row.sums.cost_nanos, row.sums.unpriced) for row in report.rows] == [(7, 0), (None, 1)]
    assert (report.total.cost_nanos, report.total.unpriced) == (7, 1)
    assert CostSums().cost_nanos == 0


def test_dearest_row_comes_first_the_unknown_last_and_time_before_all() -> None:
    unpriced = a_spend(team="u", unpriced=1, list_nanos=None, cost_nanos=None)
    reports = SpendReports(
        (START, a_spend(team="a", cost_nanos=1)),
        (START, unpriced),
        (START, a_spend(team="c", cost_nanos=9)),
        (PERIOD.bounds[1] - 1, a_spend(team="d", cost_nanos=99)),
    )
    teams = cost_report(reports, PERIOD, ("team",))
    days = cost_report(reports, PERIOD, ("team", "day"))

    assert [row.values for row in teams.rows] == [("d",), ("c",), ("a",), ("u",)]
    assert [row.values[0] for row in days.rows] == ["c", "a", "u", "d"]


def test_users_that_were_not_listed_are_others() -> None:
    reports = SpendReports(
        (START, a_spend(user="u1", cost_nanos=4)),
        (START, a_spend(user="u2", cost_nanos=2)),
        (START, a_spend(user="u3", cost_nanos=1)),
        max_users=1,
    )
    report = cost_report(reports, PERIOD, ("user", "month"))

    assert [(row.values, row.sums.cost_nanos) for row in report.rows] == [
        (("u1", "2026-10"), 4),
        (("(others)", "2026-10"), 3),
    ]


@given(
    first=st.dates(date(1980, 1, 1), date(2100, 1, 1)),
    days=st.integers(0, 800),
)
def test_months_fill_their_period(first: date, days: int) -> None:
    period = ReportPeriod(first=first, end=date.fromordinal(first.toordinal() + days), zone="UTC")
    months = months_of(period)

    assert [day for month in months for day in month.days] == list(period.days)
    assert all(month.first.month == month.days[-1].first.month for month in months)
    assert all(month.first.day == 1 for month in months[1:])


def test_after_december_comes_january() -> None:
    assert next_month(date(2026, 12, 31)) == date(2027, 1, 1)


@given(st.integers(-(10**40), 10**40))
def test_dollars_have_every_digit_however_large(nanos: int) -> None:
    dollars = usd_decimal(nanos)

    assert dollars is not None
    assert int(f"{dollars:f}".replace(".", "")) == nanos


@pytest.mark.parametrize(
    ("nanos", "text"), [(0, "0.000000000"), (-1, "-0.000000001"), (1_500_000_000, "1.500000000")]
)
def test_dollars_are_written_without_an_exponent(nanos: int, text: str) -> None:
    assert f"{usd_decimal(nanos):f}" == text
    assert usd_decimal(None) is None
    assert isinstance(usd_decimal(nanos), Decimal)


def test_sums_taken_away_leave_nothing() -> None:
    sums = CostSums(calls=2, unpriced=1, priced_nanos=9, usage=Usage(input=4, reasoning=2))

    assert sums.plus(sums, -1) == CostSums()
    assert sums.plus(sums).usage == Usage(input=8, reasoning=4)
