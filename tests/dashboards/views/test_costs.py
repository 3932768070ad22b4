from collections.abc import Callable
from datetime import date, timedelta

import pytest

from dashboards.cost_reports import CostSums
from dashboards.reports import ReportPeriod
from dashboards.views.costs import MonthForecast, charted_days, cost_amounts, month_forecast, share
from slo.usage import Usage

TODAY = date(2026, 11, 26)  # a Thursday


def forecast(cost: Callable[[date], int], first: date = date(2026, 10, 29)) -> MonthForecast:
    """The forecast of today's month where each day costs that much."""
    days = [first + timedelta(days=n) for n in range((TODAY - first).days)]
    month = [day for day in (*days, TODAY) if day.month == TODAY.month]
    past = [(day, cost(day)) for day in days]
    return month_forecast(TODAY, sum(map(cost, month)), cost(TODAY), past)


def test_the_cost_of_a_unit_is_rounded_and_leaves_idle_time_out() -> None:
    sums = CostSums(
        calls=3, attempts=4, answered=3, priced_nanos=1_010, usage=Usage(input=600, output=400)
    )
    amounts = cost_amounts(sums, idle_nanos=10)

    assert amounts.cost_nanos == 1_010
    assert (amounts.nanos_per_call, amounts.nanos_per_1k_calls) == (333, 333_333)
    assert amounts.nanos_per_1m_tokens == 1_000_000


@pytest.mark.parametrize("refused", [0, 30])
def test_cost_of_calls_is_that_of_all_attempts_by_those_with_an_answer(refused: int) -> None:
    sums = CostSums(calls=5 + refused, attempts=9 + refused, answered=4, errors=1, priced_nanos=80)
    amounts = cost_amounts(sums)

    assert (amounts.nanos_per_call, amounts.nanos_per_1k_calls) == (20, 20_000)
    assert amounts.nanos_per_1k_attempts == 10_000


def test_units_of_nothing_or_of_unknown_cost_are_unknown() -> None:
    assert cost_amounts(CostSums()).nanos_per_call is None
    unpriced = cost_amounts(CostSums(calls=2, attempts=2, unpriced=2, usage=Usage(input=5)))

    assert (unpriced.cost_nanos, unpriced.nanos_per_call, unpriced.nanos_per_1m_tokens) == (
        None,
        None,
        None,
    )
    assert share(1, 0) is None


def test_a_forecast_expects_of_each_day_left_what_its_weekday_cost() -> None:
    result = forecast(lambda day: 700 if day.weekday() == 4 else 100 if day < TODAY else 40)

    # To the end of November: the rest of Thursday, a Friday, Saturday, Sunday, Monday.
    spent = 22 * 100 + 3 * 700 + 40
    assert (result.spent_nanos, result.forecast_nanos) == (spent, spent + 60 + 700 + 3 * 100)
    assert (result.month, result.known_days) == ("2026-11", 28)


def test_a_day_that_cost_more_than_usual_already_takes_nothing_from_the_rest() -> None:
    result = forecast(lambda day: 900 if day == TODAY else 100)

    assert (result.spent_nanos, result.forecast_nanos) == (25 * 100 + 900, 29 * 100 + 900)


def test_a_forecast_has_a_band_as_wide_as_the_days_before_spread() -> None:
    even = forecast(lambda _: 100)
    uneven = forecast(lambda day: 100 if day.day % 2 else 300)

    assert even.low_nanos == even.forecast_nanos == even.high_nanos
    assert uneven.low_nanos is not None
    assert uneven.forecast_nanos is not None
    assert uneven.high_nanos is not None
    assert uneven.spent_nanos is not None
    assert uneven.spent_nanos < uneven.low_nanos < uneven.forecast_nanos < uneven.high_nanos
    assert uneven.high_nanos - uneven.forecast_nanos == pytest.approx(2 * 100 * 5**0.5, rel=0.1)


def test_a_month_of_unknown_cost_has_no_forecast_and_says_why() -> None:
    past = [(TODAY - timedelta(days=n), 100) for n in range(28, 0, -1)]
    result = month_forecast(TODAY, None, 0, past)

    assert (result.spent_nanos, result.forecast_nanos, result.missing_days) == (None, None, 0)
    assert result.method == "No call of this month has a known price."


def test_a_week_is_needed_to_forecast_a_month() -> None:
    result = forecast(lambda day: 100 if (TODAY - day).days <= 6 else 0)

    assert (result.forecast_nanos, result.known_days, result.spent_nanos) == (None, 6, 700)
    assert result.missing_days == 1
    assert "7 whole days" in result.method


def test_days_to_come_cost_the_mean_of_their_weekday_within_a_band() -> None:
    even, uneven = forecast(lambda _: 100), forecast(lambda day: 100 if day.day % 2 else 300)

    assert [(day.day.day, day.cost_nanos, day.low_nanos, day.high_nanos) for day in even.days] == [
        (number, 100, 100, 100) for number in (27, 28, 29, 30)
    ]
    for day in uneven.days:
        assert 0 <= day.low_nanos < day.cost_nanos < day.high_nanos
    assert forecast(lambda _: 0).days == ()


@pytest.mark.parametrize(
    ("first", "last", "unit", "count"),
    [
        (1, 26, "day", 4),  # the month so far: to its end
        (18, 26, "day", 3),  # nine days: a third of them
        (26, 26, "day", 1),
        (1, 25, "day", 0),  # it ended before today
        (1, 26, "week", 0),
    ],
)
def test_a_chart_that_ends_today_goes_on_for_some_days(first: int, last: int, unit, count) -> None:
    period = ReportPeriod(first=date(2026, 11, first), end=date(2026, 11, last + 1), zone="UTC")

    assert len(charted_days(period, unit, forecast(lambda _: 100), TODAY)) == count


def test_days_of_unknown_cost_are_not_learned_from() -> None:
    past = [(TODAY - timedelta(days=n), 100) for n in range(28, 0, -1)]
    partly = [(day, None if day.weekday() == 6 else nanos) for day, nanos in past]
    result = month_forecast(TODAY, 2_200, 100, partly)

    assert (result.known_days, result.forecast_nanos) == (24, 2_200 + 4 * 100)


def test_a_month_without_any_known_price_has_no_forecast_and_is_not_free() -> None:
    result = month_forecast(TODAY, None, 0, [(TODAY - timedelta(days=n), 100) for n in range(9)])

    assert (result.spent_nanos, result.forecast_nanos) == (None, None)
    assert result.method == "No call of this month has a known price."
