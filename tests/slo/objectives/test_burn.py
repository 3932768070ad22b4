import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.alert import Severity
from slo.budgets.tally import GoodBadCounts
from slo.objectives.burn import (
    burn_alerts,
    burn_rate,
    clear_share,
    is_beyond_chance,
    is_burning,
    is_cleared,
    is_missed,
    max_burn_rate,
    short_window_s,
)
from slo.objectives.objective import BurnAlert, Metric, Objective
from tests.fakes.objectives import objective, objectives

P95 = objective(target=0.95)
PAGE, NEXT, TICKET = burn_alerts(P95)
FLOOR = objective(metric=Metric.CACHE, target=0.7)
COUNTS = st.builds(GoodBadCounts, good=st.integers(0, 10**7), bad=st.integers(0, 10**7))


@pytest.mark.parametrize(
    ("target", "max_rate"), [(0.999, 1000), (0.99, 100), (0.95, 20), (0.9, 10), (0.7, 3.333333)]
)
def test_no_burn_is_above_that_of_calls_that_are_all_bad(target: float, max_rate: float) -> None:
    assert max_burn_rate(target) == max_rate
    assert burn_rate(GoodBadCounts(good=0, bad=7), objective(target=target)) == pytest.approx(
        max_rate
    )


def test_a_burn_of_one_uses_up_the_budget_exactly() -> None:
    assert burn_rate(GoodBadCounts(good=95, bad=5), P95) == pytest.approx(1)
    assert burn_rate(GoodBadCounts(good=70, bad=30), P95) == pytest.approx(6)
    assert burn_rate(GoodBadCounts(), P95) == 0.0


def test_a_p95_pages_at_30_and_15_percent_and_is_a_ticket_at_seven_and_a_half() -> None:
    assert burn_alerts(P95) == (
        BurnAlert(burn=6.0, over=1800.0, severity=Severity.PAGE),
        BurnAlert(burn=3.0, over=21_600.0, severity=Severity.PAGE),
        BurnAlert(burn=1.5, over=259_200.0, severity=Severity.TICKET),
    )
    assert [short_window_s(alert) for alert in burn_alerts(P95)] == [150.0, 1800.0, 21_600.0]


def test_higher_targets_have_the_usual_burns_and_lower_ones_what_they_can_reach() -> None:
    assert [alert.burn for alert in burn_alerts(objective(target=0.999))] == [14.4, 6.0, 1.5]
    assert [alert.burn for alert in burn_alerts(objective(target=0.7))] == [2.055, 1.555, 1.177]


def test_an_objective_s_own_alerts_take_the_place_of_the_usual_and_a_cache_has_none() -> None:
    own = BurnAlert(burn=2.0, over=600.0)
    assert burn_alerts(objective(alerts=(own,))) == (own,)
    assert burn_alerts(FLOOR) == ()


@given(st.floats(0.01, 0.99999))
def test_every_usual_alert_can_come_and_none_comes_while_the_objective_is_kept(
    target: float,
) -> None:
    burns = [alert.burn for alert in burn_alerts(objective(target=target))]
    assert all(1 <= burn <= max_burn_rate(target) for burn in burns)
    assert burns == sorted(burns, reverse=True)


@pytest.mark.slow
@given(objectives(), COUNTS, COUNTS)
def test_no_alert_comes_while_the_objective_is_kept(
    drawn: Objective, over: GoodBadCounts, lately: GoodBadCounts
) -> None:
    for alert in burn_alerts(drawn):
        if burn_rate(over, drawn) < 1 or burn_rate(lately, drawn) < 1 - 1e-6:
            assert not is_burning(alert, drawn, over, lately)


@pytest.mark.slow
@given(objectives())
def test_every_alert_comes_where_all_is_bad_for_long_enough(drawn: Objective) -> None:
    for alert in burn_alerts(drawn):
        assert is_burning(alert, drawn, GoodBadCounts(bad=1000), GoodBadCounts(bad=1))


@pytest.mark.parametrize(
    ("over", "lately", "burns"),
    [
        (GoodBadCounts(70, 30), GoodBadCounts(7, 3), True),
        (GoodBadCounts(71, 29), GoodBadCounts(0, 10), False),
        (GoodBadCounts(70, 30), GoodBadCounts(71, 29), False),
        (GoodBadCounts(70, 30), GoodBadCounts(), False),
        (GoodBadCounts(0, 19), GoodBadCounts(0, 19), False),
        (GoodBadCounts(14, 6), GoodBadCounts(14, 6), True),
    ],
)
def test_a_burn_alert_is_due_where_its_whole_window_and_its_end_burn(over, lately, burns):
    assert is_burning(PAGE, P95, over, lately) == burns


def test_two_bad_calls_are_no_incident_however_high_the_target() -> None:
    high = objective(target=0.999)
    assert not is_beyond_chance(GoodBadCounts(18, 2), high)
    assert is_beyond_chance(GoodBadCounts(17, 3), high)
    assert not is_burning(burn_alerts(high)[0], high, GoodBadCounts(18, 2), GoodBadCounts(0, 2))


@pytest.mark.slow
@given(objectives(), COUNTS)
def test_chance_explains_whatever_is_kept(drawn: Objective, counts: GoodBadCounts) -> None:
    if counts.bad <= counts.n * (1 - drawn.target):
        assert not is_beyond_chance(counts, drawn)


def test_floor_clears_three_hundredths_above_it_unless_stated() -> None:
    assert clear_share(FLOOR) == 0.73
    assert clear_share(objective(metric=Metric.CACHE, target=0.7, clear=0.9)) == 0.9
    assert clear_share(objective(metric=Metric.CACHE, target=0.98)) == 0.99


def prompts(read: int, unread: int) -> GoodBadCounts:
    """The tokens of so many prompts of the least length."""
    return GoodBadCounts(read * 1024, unread * 1024)


@pytest.mark.parametrize(
    ("hour", "missed"),
    [
        (prompts(60, 40), True),
        (prompts(69, 31), False),
        (prompts(69_000, 31_000), True),
        (prompts(0, 19), False),
        (prompts(0, 20), True),
        (prompts(0, 0), False),
    ],
)
def test_a_floor_is_missed_where_chance_does_not_explain_it(hour, missed):
    assert is_missed(FLOOR, hour) == missed


@pytest.mark.parametrize(
    ("quarter", "cleared"),
    [
        (prompts(82, 18), True),
        (prompts(76, 24), False),
        (prompts(19, 0), False),
        (prompts(20, 0), True),
        (prompts(0, 0), False),
    ],
)
def test_a_floor_is_kept_again_where_that_is_no_accident(quarter, cleared):
    assert is_cleared(FLOOR, quarter) == cleared


@pytest.mark.slow
@given(objectives(metrics=[Metric.CACHE]), COUNTS)
def test_no_floor_is_missed_and_kept_at_once_and_each_can_be_either(
    drawn: Objective, counts: GoodBadCounts
) -> None:
    assert not (is_missed(drawn, counts) and is_cleared(drawn, counts))
    assert is_missed(drawn, GoodBadCounts(0, 10**9))
    assert is_cleared(drawn, GoodBadCounts(10**9, 0))
