import pytest
from msgspec import json

from slo.budgets.tally import GoodBadCounts, Tally
from slo.controller.state import (
    ControllerRules,
    ControllerSnapshot,
    ControllerState,
    LevelCounts,
    level_counts,
)

NOW = 1_000_000.0


@pytest.mark.parametrize("target", [0.0, 1.0, -1.0, float("nan")])
def test_a_target_is_a_part_that_can_be_kept_and_broken(target):
    with pytest.raises(ValueError, match="above 0 and below 1"):
        ControllerRules(target=target, fallback_levels=1)


def test_a_negative_number_of_fallback_levels_is_refused():
    assert ControllerRules(target=0.95, fallback_levels=0).fallback_levels == 0
    with pytest.raises(ValueError, match="-1 fallback levels"):
        ControllerRules(target=0.95, fallback_levels=-1)


@pytest.mark.parametrize("ramp", [(), (0.5,), (0.5, 0.2, 1.0), (0.5, 0.5, 1.0), (0.5, 1.0, 2.0)])
def test_a_ramp_ascends_to_all(ramp):
    with pytest.raises(ValueError, match=r"ascends to 1\.0"):
        ControllerRules(target=0.95, fallback_levels=1, ramp=ramp)


@pytest.mark.parametrize(
    ("target", "bad", "n"), [(0.95, 6, 120), (0.9, 4, 40), (0.99, 1, 100), (0.7, 12, 40)]
)
def test_a_share_that_is_just_the_budget_is_not_above_it(target, bad, n):
    assert (
        GoodBadCounts(n - bad, bad).share
        == ControllerRules(target=target, fallback_levels=1).budget
    )


def test_the_dwell_doubles_with_each_relapse_up_to_its_most():
    rules = ControllerRules(target=0.95, fallback_levels=1)

    dwells = [rules.dwell_time(relapses) for relapses in (0, 1, 2, 3, 4, 10**9)]

    assert dwells == [120.0, 240.0, 480.0, 900.0, 900.0, 900.0]


def test_a_controller_snapshot_begins_healthy_and_survives_json():
    snapshot = ControllerSnapshot(since=NOW)

    assert (snapshot.state, snapshot.level, snapshot.share) == (ControllerState.HEALTHY, 0, 1.0)
    assert json.decode(json.encode(snapshot), type=ControllerSnapshot) == snapshot
    assert b'"state":"healthy"' in json.encode(snapshot)


def test_an_arm_is_what_the_tally_counted_of_its_key_lately():
    tally = Tally()
    for good, ago in ((1, 5), (10, 100), (100, 200), (1000, 400)):
        tally.add("chat/1", good, 1, NOW - ago)

    counted = level_counts(tally, "chat/1", NOW)
    assert counted.within(60) == GoodBadCounts(1, 1)
    assert counted.within(120) == GoodBadCounts(11, 2)
    assert counted.within(300) == GoodBadCounts(111, 3)
    assert counted.within(9999) == GoodBadCounts(1111, 4)
    assert level_counts(tally, "chat/2", NOW) == LevelCounts()
    assert LevelCounts().within(60) == GoodBadCounts()


def test_the_latest_calls_are_as_many_as_wanted_or_none():
    counted = LevelCounts(
        (GoodBadCounts(), GoodBadCounts(3, 1), GoodBadCounts(3, 1), GoodBadCounts(9, 1))
    )

    assert counted.latest(4) == (GoodBadCounts(3, 1), 20.0)
    assert counted.latest(4, 30) == (GoodBadCounts(3, 1), 30.0)
    assert counted.latest(5, 10) == (GoodBadCounts(9, 1), 40.0)
    assert counted.latest(11) == (GoodBadCounts(), 0.0)
    assert LevelCounts().latest(1) == (GoodBadCounts(), 0.0)


def test_after_the_second_relapse_evidence_takes_longer_up_to_four_times():
    rules = ControllerRules(target=0.95, fallback_levels=1)

    assert [rules.patience(relapses) for relapses in (0, 1, 2, 3, 4, 10**9)] == [1, 1, 2, 4, 4, 4]
