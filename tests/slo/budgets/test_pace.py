"""The pace of a budget: where its window ends, by the last days or by itself so far."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.pace import budget_pace
from slo.window import Window

DOLLAR = 10**9
#: Noon of the 16th of a month of 30 days: 14.5 days are left.
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
WEEK = [2 * DOLLAR] * 7


def test_month_goes_on_at_the_mean_of_the_last_seven_days() -> None:
    pace = budget_pace(Window.MONTH, 50 * DOLLAR, 32 * DOLLAR, WEEK, NOON)

    assert pace is not None
    assert (pace.end, pace.basis) == (61 * DOLLAR, "last 7 days")
    assert (pace.over_at, pace.over) == (NOON + 9 * 86_400, "25 Nov")


def test_days_up_to_the_first_with_spending_are_not_part_of_the_pace() -> None:
    days = [0, 0, 0, 0, 0, 3 * DOLLAR, DOLLAR]
    pace = budget_pace(Window.MONTH, 50 * DOLLAR, 10 * DOLLAR, days, NOON)

    assert pace is not None
    assert (pace.end, pace.over_at, pace.over) == (24 * DOLLAR + DOLLAR // 2, None, "")


@pytest.mark.parametrize("days", [[], [0] * 7, [0] * 6 + [DOLLAR]])
def test_without_known_days_the_window_so_far_is_the_pace(days: list[int]) -> None:
    pace = budget_pace(Window.DAY, 30 * DOLLAR, 20 * DOLLAR, days, NOON)

    assert pace is not None
    assert (pace.end, pace.basis, pace.over) == (40 * DOLLAR, "window so far", "18:00")


def test_hour_is_never_paced_by_days() -> None:
    pace = budget_pace(Window.HOUR, 100, 30, [10_000] * 7, NOON + 1800)

    assert pace is not None
    assert (pace.end, pace.basis) == (60, "window so far")


def test_spent_that_is_unknown_and_a_window_that_has_just_begun_have_no_pace() -> None:
    assert budget_pace(Window.MONTH, 50, None, WEEK, NOON) is None
    assert budget_pace(Window.HOUR, 50, 5, WEEK, NOON + 300) is None


@pytest.mark.parametrize("spent", [50, 51])
def test_limit_that_is_reached_already_is_over_without_a_day(spent: int) -> None:
    pace = budget_pace(Window.MONTH, 50, spent, [1] * 7, NOON)

    assert pace is not None
    assert (pace.is_over, pace.over_at, pace.over) == (True, None, "")


@given(
    spent=st.integers(0, 10**15),
    limit=st.integers(1, 10**15),
    days=st.lists(st.integers(0, 10**15), max_size=7),
    at=st.floats(0, 2_591_999),
)
def test_pace_never_ends_below_what_is_spent_and_is_over_within_its_window(
    spent: int, limit: int, days: list[int], at: float
) -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    pace = budget_pace(Window.MONTH, limit, spent, days, start + at)
    if pace is None:
        return

    assert pace.end >= spent
    assert pace.is_over == (spent >= limit)
    assert (pace.over_at is not None) == (pace.end > limit and not pace.is_over) == bool(pace.over)
    if pace.over_at is not None:
        assert start + at <= pace.over_at <= start + 30 * 86_400
