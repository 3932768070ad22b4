"""Tests of what is remembered of counters, and of alerts when they pass a threshold."""

import pytest

from proxy.services.budgets.cost_bounds.reservation_requests import CountedBudget
from proxy.services.budgets.counter_views import CounterViews
from slo.alert import Alert
from slo.budgets.counter import CounterLevel
from slo.budgets.reservation_sizing import CounterView
from tests.fakes.admission_harness import NOW, budget


def counted_budget(counter: str = "c") -> CountedBudget:
    return CountedBudget(budget(limit=100), "acme", counter, NOW + 100)


@pytest.mark.parametrize(
    ("age_s", "view"),
    [
        (0.0, CounterView(spent=7, held=5, running=2)),
        (3.0, CounterView(spent=7, held=5, running=2)),
        (3.1, CounterView(spent=7)),
    ],
)
def test_of_an_old_report_only_what_was_spent_holds(age_s, view):
    views = CounterViews()
    views.remember(counted_budget(), CounterLevel(7, 5), 2, NOW)

    assert views.estimate("c", NOW + age_s) == view
    assert views.last_level("c") == CounterLevel(7, 5)


def test_a_counter_that_was_not_heard_of_is_taken_to_be_empty():
    views = CounterViews()

    assert views.estimate("c", NOW) == CounterView()
    assert views.last_level("c") is None


def test_counters_heard_of_longest_ago_are_forgotten_beyond_the_bound():
    views = CounterViews()
    for number in range(20_001):
        views.remember(counted_budget(str(number)), CounterLevel(1, 0), 0, NOW)

    assert views.last_level("0") is None
    assert views.last_level("1") == CounterLevel(1, 0)


def test_a_threshold_that_is_passed_is_reported_once():
    alerts: list[Alert] = []
    views = CounterViews()
    views.say = alerts.append
    for spent in (10, 85, 86):
        views.remember(counted_budget(), CounterLevel(spent, 0), 0, NOW)

    assert [alert.subject for alert in alerts] == [alerts[0].subject]
