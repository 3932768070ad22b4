import pytest

from proxy.engines.routing.replica_pace import ReplicaPace, fleet_pace


def pace_of_calls(observed_s: float, calls: int = 10) -> ReplicaPace:
    pace = ReplicaPace()
    for _ in range(calls):
        pace.note_first_token(observed_s, 0.5, 0.0)
    return pace


def test_a_replica_without_calls_is_of_the_usual_pace():
    assert ReplicaPace().ratio(5.0) == 1.0
    assert fleet_pace([], 0.0) == (1.0, 0.0)


def test_a_replica_that_begins_later_than_predicted_is_slower():
    assert pace_of_calls(7.5).ratio(0.0) == pytest.approx(13, abs=1)


def test_the_pace_of_a_replica_without_calls_is_forgotten():
    pace = pace_of_calls(7.5)

    assert pace.ratio(20.0) > 10
    assert pace.ratio(60.0) == 1.0


def test_calls_that_are_long_past_do_not_count_in_the_pace():
    pace = pace_of_calls(0.5, calls=4)
    for _ in range(4):
        pace.note_first_token(7.5, 0.5, 25.0)

    assert pace.ratio(25.0) == 1.0
    assert pace.ratio(31.0) > 10


def test_a_few_late_calls_among_others_make_no_slow_replica():
    few, some = pace_of_calls(7.5, calls=3), pace_of_calls(0.5, calls=5)
    for _ in range(3):
        some.note_first_token(7.5, 0.5, 0.0)

    assert (few.ratio(0.0), some.ratio(0.0)) == (1.0, 1.0)


def test_the_pace_of_the_fleet_is_that_of_most_replicas():
    fast, slow = pace_of_calls(0.5), pace_of_calls(7.5)
    fast.note_run(2.0)

    assert fleet_pace([fast, slow, pace_of_calls(0.5)], 0.0).ratio == fast.ratio(0.0)
    assert fleet_pace([fast, slow], 0.0) == (fast.ratio(0.0), 2.0)


def test_the_time_that_calls_run_follows_the_newest_ones():
    pace = ReplicaPace()
    for seconds in (1.0, 2.0, 2.0):
        pace.note_run(seconds)

    assert 1.1 < pace.run_s < 1.3
