"""The simulated incident, once: what ``python -m tests.bench.incident`` prints for three seeds."""

import pytest

from tests.bench.incident import Controller, Outcome, Switch, outcome


@pytest.fixture(scope="module")
def ours() -> Outcome:
    return outcome(1, Controller())


@pytest.fixture(scope="module")
def usual() -> Outcome:
    return outcome(1, Switch())


def test_an_incident_takes_four_moves_at_most(ours):
    assert ours.moves <= 4


def test_it_is_over_within_six_minutes_of_its_end(ours):
    assert 0 < ours.whole < ours.settled <= 360


def test_no_more_calls_are_slow_than_under_the_usual_switch_which_moves_far_more_often(ours, usual):
    assert ours.slow <= usual.slow
    assert usual.moves > 4 * ours.moves
