"""Objectives that are missed, by the counts of their calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.services.objectives.judge import Judge
from proxy.services.objectives.missed_objectives import current_miss, is_burning
from proxy.services.objectives.objective_state import Miss, TrackedObjective, track_objective
from slo.controller.state import ControllerState
from slo.objectives.burn import burn_alerts
from slo.objectives.objective import Enforce, Metric
from tests.fakes.alerts import an_alert
from tests.fakes.objective_replicas import START, objective

BARE = track_objective(objective(ladder=(), enforce=Enforce.ALERT))
FLOOR = track_objective(
    objective(name="floor", metric=Metric.CACHE, target=0.7, under=None, enforce=Enforce.OBSERVE)
)


class CountedTraffic:
    """Calls of one objective, counted each ten seconds, and its misses."""

    def __init__(self, track: TrackedObjective = BARE) -> None:
        self.track = track
        self.judge = Judge([track])
        self.now = START
        self.miss: Miss | None = None

    def goes_on(self, seconds: int, good: int = 0, bad: int = 0) -> Miss | None:
        for _ in range(seconds // 10):
            self.now += 10.0
            self.judge.add_counts({(self.track.arm(0), int(self.now // 10)): (good, bad)})
            self.judge.judge({}, self.now)
            self.miss = current_miss(self.track, self.judge, None, self.miss, self.now)
        return self.miss


def test_an_objective_without_a_ladder_is_missed_within_20_s_of_bad_calls():
    traffic = CountedTraffic()
    assert traffic.goes_on(120, good=10) is None
    miss = traffic.goes_on(20, bad=10)

    assert miss is not None
    assert miss.reason == "burn 2.9 over 2 min 10 s: 20 of 140 calls missed it"
    assert traffic.judge.snapshots[BARE.name].state is ControllerState.HEALTHY


def test_a_miss_keeps_its_beginning_and_ends_soon_after_calls_are_good_again():
    traffic = CountedTraffic()
    first = traffic.goes_on(100, bad=10)
    later = traffic.goes_on(1000, bad=10)

    assert first is not None
    assert later is not None
    assert later.since == first.since == START + 20
    assert later.reason == "burn 20.0 over 10 min: 600 of 600 calls missed it"
    assert traffic.goes_on(200, good=10) is None


def test_a_miss_lasts_through_a_pause_and_ends_with_what_was_counted():
    traffic = CountedTraffic()
    assert traffic.goes_on(60, bad=10)

    assert traffic.goes_on(300)
    assert traffic.goes_on(400) is None


@pytest.mark.parametrize(("good", "bad"), [(0, 0), (20, 1), (9, 1)])
def test_no_or_good_enough_calls_are_no_miss(good, bad):
    traffic = CountedTraffic()
    traffic.judge.add_counts({(BARE.arm(0), int(START // 10)): (good, bad)})

    assert current_miss(BARE, traffic.judge, None, None, START + 10) is None


@pytest.mark.parametrize(("good", "bad"), [(3, 9), (0, 1), (0, 19), (23, 2)])
def test_miss_of_too_few_calls_is_unproven_until_there_are_enough(good, bad):
    strict = track_objective(objective(ladder=(), enforce=Enforce.ALERT, target=0.99))
    traffic = CountedTraffic(strict)
    traffic.judge.add_counts({(strict.arm(0), int(START // 10)): (good, bad)})
    doubt = current_miss(strict, traffic.judge, None, None, START + 10)

    reason = f"too few calls to judge: {bad} of {good + bad} missed it"
    assert doubt == Miss(START + 10, reason, is_proven=False)
    later = current_miss(strict, traffic.judge, None, doubt, START + 20)
    assert later == doubt, "it keeps its beginning"
    traffic.judge.add_counts({(strict.arm(0), int(START // 10) + 2): (0, 20)})
    miss = current_miss(strict, traffic.judge, None, doubt, START + 30)
    assert miss is not None
    assert (miss.is_proven, miss.since) == (True, START + 30)


def test_a_burn_over_hours_is_a_miss_though_few_recent_calls_were_counted():
    traffic = CountedTraffic()
    traffic.goes_on(5 * 3600, good=3, bad=1)
    traffic.goes_on(600)
    miss = current_miss(BARE, traffic.judge, None, None, traffic.now)

    assert miss is not None
    assert "over 5 h" in miss.reason


def test_a_missed_floor_is_a_miss_also_where_it_is_only_observed():
    traffic = CountedTraffic(FLOOR)
    assert traffic.goes_on(600, good=9_000, bad=1_000) is None
    miss = traffic.goes_on(3600, good=1_000, bad=9_000)

    assert miss is not None
    assert "eligible tokens were read" in miss.reason
    assert traffic.goes_on(900, good=9_000, bad=1_000) is None


def test_an_open_alert_is_a_miss_from_its_beginning_also_where_nothing_is_counted():
    alert = an_alert(title="it burns", began=START - 900)

    assert current_miss(BARE, Judge([BARE]), alert, None, START) == Miss(START - 900, "it burns")


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60),
)
def test_a_due_burn_alert_is_always_a_miss(slots):
    traffic = CountedTraffic()
    for good, bad in slots:
        miss = traffic.goes_on(10, good=good, bad=bad)
        is_due = any(
            is_burning(BARE, alert, traffic.judge, traffic.now)
            for alert in burn_alerts(BARE.objective)
        )
        assert miss is not None or not is_due
