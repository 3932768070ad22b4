import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.alert import Severity
from slo.burn import (
    alerts,
    burning,
    clear,
    is_beyond_chance,
    is_cleared,
    is_missed,
    largest,
    rate,
    short,
)
from slo.objective import BurnAlert, Metric, Objective
from slo.tally import Counts
from tests.fakes.promised import objective, objectives

P95 = objective(target=0.95)
PAGE, NEXT, TICKET = alerts(P95)
FLOOR = objective(metric=Metric.CACHE, target=0.7)
COUNTS = st.builds(Counts, good=st.integers(0, 10**7), bad=st.integers(0, 10**7))


@pytest.mark.parametrize(
    ("target", "most"), [(0.999, 1000), (0.99, 100), (0.95, 20), (0.9, 10), (0.7, 3.333333)]
)
def test_no_burn_is_above_that_of_calls_that_are_all_bad(target: float, most: float) -> None:
    assert largest(target) == most
    assert rate(Counts(good=0, bad=7), objective(target=target)) == pytest.approx(most)


def test_a_burn_of_one_uses_up_the_budget_exactly() -> None:
    assert rate(Counts(good=95, bad=5), P95) == pytest.approx(1)
    assert rate(Counts(good=70, bad=30), P95) == pytest.approx(6)
    assert rate(Counts(), P95) == 0.0


def test_a_p95_pages_at_30_and_15_percent_and_is_a_ticket_at_seven_and_a_half() -> None:
    assert alerts(P95) == (
        BurnAlert(burn=6.0, over=1800.0, severity=Severity.PAGE),
        BurnAlert(burn=3.0, over=21_600.0, severity=Severity.PAGE),
        BurnAlert(burn=1.5, over=259_200.0, severity=Severity.TICKET),
    )
    assert [short(each) for each in alerts(P95)] == [150.0, 1800.0, 21_600.0]


def test_higher_targets_have_the_usual_burns_and_lower_ones_what_they_can_reach() -> None:
    assert [each.burn for each in alerts(objective(target=0.999))] == [14.4, 6.0, 1.5]
    assert [each.burn for each in alerts(objective(target=0.7))] == [2.055, 1.555, 1.177]


def test_an_objective_s_own_alerts_take_the_place_of_the_usual_and_a_cache_has_none() -> None:
    own = BurnAlert(burn=2.0, over=600.0)
    assert alerts(objective(alerts=(own,))) == (own,)
    assert alerts(FLOOR) == ()


@given(st.floats(0.01, 0.99999))
def test_every_usual_alert_can_come_and_none_comes_while_the_objective_is_kept(
    target: float,
) -> None:
    burns = [each.burn for each in alerts(objective(target=target))]
    assert all(1 <= burn <= largest(target) for burn in burns)
    assert burns == sorted(burns, reverse=True)


@given(objectives(), COUNTS, COUNTS)
def test_no_alert_comes_while_the_objective_is_kept(
    each: Objective, over: Counts, lately: Counts
) -> None:
    for alert in alerts(each):
        if rate(over, each) < 1 or rate(lately, each) < 1 - 1e-6:
            assert not burning(alert, each, over, lately)


@given(objectives())
def test_every_alert_comes_where_all_is_bad_for_long_enough(each: Objective) -> None:
    for alert in alerts(each):
        assert burning(alert, each, Counts(bad=1000), Counts(bad=1))


@pytest.mark.parametrize(
    ("over", "lately", "is_burning"),
    [
        (Counts(70, 30), Counts(7, 3), True),
        (Counts(71, 29), Counts(0, 10), False),
        (Counts(70, 30), Counts(71, 29), False),
        (Counts(70, 30), Counts(), False),
        (Counts(0, 19), Counts(0, 19), False),
        (Counts(14, 6), Counts(14, 6), True),
    ],
)
def test_it_burns_where_the_whole_window_and_its_end_do(over, lately, is_burning):
    assert burning(PAGE, P95, over, lately) == is_burning


def test_two_bad_calls_are_no_incident_however_high_the_target() -> None:
    high = objective(target=0.999)
    assert not is_beyond_chance(Counts(18, 2), high)
    assert is_beyond_chance(Counts(17, 3), high)
    assert not burning(alerts(high)[0], high, Counts(18, 2), Counts(0, 2))


@given(objectives(), COUNTS)
def test_chance_explains_whatever_is_kept(each: Objective, counts: Counts) -> None:
    if counts.bad <= counts.n * (1 - each.target):
        assert not is_beyond_chance(counts, each)


def test_a_floor_clears_three_hundredths_above_it_unless_told() -> None:
    assert clear(FLOOR) == 0.73
    assert clear(objective(metric=Metric.CACHE, target=0.7, clear=0.9)) == 0.9
    assert clear(objective(metric=Metric.CACHE, target=0.98)) == 0.99


@pytest.mark.parametrize(
    ("hour", "calls", "missed"),
    [
        (Counts(60_000, 40_000), 100, True),
        (Counts(69_000, 31_000), 100, False),
        (Counts(69_000, 31_000), 100_000, True),
        (Counts(0, 100_000), 19, False),
        (Counts(0, 100_000), 20, True),
        (Counts(0, 100_000), None, True),
        (Counts(0, 20_000), None, False),
        (Counts(), None, False),
        (Counts(), 50, False),
    ],
)
def test_a_floor_is_missed_where_chance_does_not_explain_it(hour, calls, missed):
    assert is_missed(FLOOR, hour, calls) == missed


@pytest.mark.parametrize(
    ("quarter", "calls", "cleared"),
    [
        (Counts(82_000, 18_000), 100, True),
        (Counts(76_000, 24_000), 100, False),
        (Counts(100_000, 0), 19, False),
        (Counts(100_000, 0), 20, True),
        (Counts(100_000, 0), None, True),
        (Counts(), None, False),
    ],
)
def test_a_floor_is_kept_again_where_that_is_no_accident(quarter, calls, cleared):
    assert is_cleared(FLOOR, quarter, calls) == cleared


@given(objectives(metrics=[Metric.CACHE]), COUNTS)
def test_no_floor_is_missed_and_kept_at_once_and_each_can_be_either(
    each: Objective, counts: Counts
) -> None:
    assert not (is_missed(each, counts) and is_cleared(each, counts))
    assert is_missed(each, Counts(0, 10**9), 1000)
    assert is_cleared(each, Counts(10**9, 0), 1000)
