import pytest
from msgspec import json

from slo.controller.state import Arm, Rules, Standing, State, arm
from slo.tally import Counts, Tally

NOW = 1_000_000.0


@pytest.mark.parametrize("target", [0.0, 1.0, -1.0, float("nan")])
def test_a_target_is_a_part_that_can_be_kept_and_broken(target):
    with pytest.raises(ValueError, match="above 0 and below 1"):
        Rules(target=target, rungs=1)


def test_there_are_no_rungs_or_some():
    assert Rules(target=0.95, rungs=0).rungs == 0
    with pytest.raises(ValueError, match="-1 rungs"):
        Rules(target=0.95, rungs=-1)


@pytest.mark.parametrize("ramp", [(), (0.5,), (0.5, 0.2, 1.0), (0.5, 0.5, 1.0), (0.5, 1.0, 2.0)])
def test_a_ramp_ascends_to_all(ramp):
    with pytest.raises(ValueError, match=r"ascends to 1\.0"):
        Rules(target=0.95, rungs=1, ramp=ramp)


@pytest.mark.parametrize(
    ("target", "bad", "n"), [(0.95, 6, 120), (0.9, 4, 40), (0.99, 1, 100), (0.7, 12, 40)]
)
def test_a_share_that_is_just_the_budget_is_not_above_it(target, bad, n):
    assert Counts(n - bad, bad).share == Rules(target=target, rungs=1).budget


def test_the_dwell_doubles_with_each_relapse_up_to_its_most():
    rules = Rules(target=0.95, rungs=1)

    dwells = [rules.dwelling(relapses) for relapses in (0, 1, 2, 3, 4, 10**9)]

    assert dwells == [120.0, 240.0, 480.0, 900.0, 900.0, 900.0]


def test_a_standing_begins_healthy_and_survives_json():
    standing = Standing(since=NOW)

    assert (standing.state, standing.level, standing.share) == (State.HEALTHY, 0, 1.0)
    assert json.decode(json.encode(standing), type=Standing) == standing
    assert b'"state":"healthy"' in json.encode(standing)


def test_an_arm_is_what_the_tally_counted_of_its_key_lately():
    tally = Tally()
    for good, ago in ((1, 5), (10, 100), (100, 200), (1000, 400)):
        tally.add("chat/1", good, 1, NOW - ago)

    counted = arm(tally, "chat/1", NOW)
    assert counted.within(60) == Counts(1, 1)
    assert counted.within(120) == Counts(11, 2)
    assert counted.within(300) == Counts(111, 3)
    assert counted.within(9999) == Counts(1111, 4)
    assert arm(tally, "chat/2", NOW) == Arm()
    assert Arm().within(60) == Counts()


def test_the_latest_calls_are_as_many_as_wanted_or_none():
    counted = Arm((Counts(), Counts(3, 1), Counts(3, 1), Counts(9, 1)))

    assert counted.latest(4) == (Counts(3, 1), 20.0)
    assert counted.latest(4, 30) == (Counts(3, 1), 30.0)
    assert counted.latest(5, 10) == (Counts(9, 1), 40.0)
    assert counted.latest(11) == (Counts(), 0.0)
    assert Arm().latest(1) == (Counts(), 0.0)


def test_after_the_second_relapse_evidence_takes_longer_up_to_four_times():
    rules = Rules(target=0.95, rungs=1)

    assert [rules.patience(relapses) for relapses in (0, 1, 2, 3, 4, 10**9)] == [1, 1, 2, 4, 4, 4]
