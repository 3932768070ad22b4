"""The simulated incident, a few times: what ``python -m tests.bench.incident`` prints for many."""

import pytest

from tests.bench.incident import WEATHERS, Controller, IncidentResult, Switch, outcome


@pytest.fixture(scope="module", params=[1, 9, 25])
def both(request: pytest.FixtureRequest) -> tuple[IncidentResult, IncidentResult]:
    """The same hour under ours and the usual; of 9 and 25 canaries come late and in bursts."""
    return outcome(request.param, Controller()), outcome(request.param, Switch())


@pytest.mark.slow
def test_an_incident_takes_four_moves_at_most(both):
    assert both[0].moves <= 4


@pytest.mark.slow
def test_an_incident_is_over_for_callers_within_six_minutes_of_its_end(both):
    assert 0 < both[0].whole < both[0].settled <= 360


def test_no_more_calls_are_slow_than_under_the_usual_switch_which_moves_far_more_often(both):
    ours, usual = both

    assert ours.slow <= usual.slow
    assert usual.moves > 4 * ours.moves


@pytest.mark.parametrize("traffic", ["the first at 3 calls/s", "the first at 1 call/s"])
def test_an_incident_is_as_soon_over_with_less_traffic(traffic):
    came = outcome(1, Controller(), WEATHERS[traffic])

    assert came.moves == 3
    assert came.settled <= 360


@pytest.mark.slow
def test_an_incident_that_comes_again_is_noticed_again_and_as_soon_over():
    came = outcome(1, Controller(), WEATHERS["and again after eight minutes"])

    assert came.moves == 6
    assert came.settled <= 360


def test_mild_breach_with_a_call_a_second_does_not_recover_by_luck():
    mild = WEATHERS["45 minutes, 1.5 times slower, 1 call/s"]

    ours, usual = outcome(1, Controller(), mild), outcome(1, Switch(), mild)

    assert ours.slow < 0.9 * usual.slow
    assert usual.moves > 4 * ours.moves


def test_with_ten_calls_a_minute_it_is_noticed_in_five_minutes():
    came = outcome(1, Controller(), WEATHERS["the first at 10 calls/min"])

    assert came.moves == 3
    assert came.noticed <= 300


@pytest.mark.slow
@pytest.mark.parametrize("calm", ["calm", "calm, 1 call/s", "calm, 10 calls/min"])
def test_no_level_changes_in_calm_traffic(calm):
    assert outcome(1, Controller(), WEATHERS[calm]).moves == 0
