import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.similarity.operating_point import (
    DriftTest,
    OperatingPoint,
    proved_point,
    upper_bound,
)

PROMISE = 0.005


def is_proved(dice: random.Random, wrong: float, pairs: int) -> bool:
    """True where so many pairs prove the promise at any time."""
    point = OperatingPoint(5.0)
    for _ in range(pairs):
        point.observe(was_right=dice.random() >= wrong)
    return point.bound <= PROMISE


@pytest.mark.parametrize(("wrong", "checked"), [(0, 919), (1, 1_242), (2, 1_565), (8, 3_503)])
def test_promise_is_proved_by_the_fewest_pairs_that_win_twentyfold(wrong, checked):
    assert upper_bound(wrong, checked) <= PROMISE < upper_bound(wrong, checked - 1)


@given(st.integers(0, 20), st.integers(21, 400))
def test_upper_bound_lies_above_the_share_and_grows_with_wrong_ones(wrong, checked):
    assert wrong / checked < upper_bound(wrong, checked) <= upper_bound(wrong + 1, checked) <= 1.0


def test_nothing_but_wrong_ones_or_nothing_at_all_bounds_nothing():
    assert upper_bound(0, 0) == upper_bound(9, 9) == 1.0


def test_bound_once_reached_is_not_lost_to_a_later_wrong_one():
    point = OperatingPoint(5.0)
    for _ in range(919):
        point.observe(was_right=True)
    point.observe(was_right=False)

    assert point.bound <= PROMISE < upper_bound(point.wrong, point.checked)


def test_looser_point_counts_once_all_stricter_ones_are_proved():
    strict, middle, loose = (OperatingPoint(score) for score in (5.0, 4.0, 3.0))
    points = [strict, middle, loose]
    loose.bound = 0.001
    assert proved_point(points, PROMISE) is None

    strict.bound = 0.004
    assert proved_point(points, PROMISE) is strict
    middle.bound = 0.005
    assert proved_point(points, PROMISE) is loose


def test_share_above_the_promise_is_proved_in_few_runs_though_looked_at_after_each_pair():
    proofs = sum(is_proved(random.Random(seed), 0.0055, 2_000) for seed in range(200))  # noqa: S311

    assert proofs <= 10


def test_share_far_below_the_promise_is_proved():
    proofs = sum(is_proved(random.Random(seed), 0.0005, 2_000) for seed in range(20))  # noqa: S311

    assert proofs >= 18


def test_drift_stops_within_two_hundred_hits_and_promised_errors_do_not():
    stops = sum(stops_within(200, 0.05, seed) for seed in range(200))
    false_stops = sum(stops_within(500, 0.002, seed) for seed in range(100))

    assert stops >= 176
    assert false_stops <= 5


def stops_within(hits: int, wrong: float, seed: int) -> bool:
    """True where the first so many hits of a proved point end serving."""
    dice, test = random.Random(seed), DriftTest()  # noqa: S311 # no secret
    return any(
        dice.random() < test.checked_share(0.1)
        and test.observe(PROMISE, was_right=dice.random() >= wrong)
        for _ in range(hits)
    )


def test_third_of_the_first_hits_is_checked():
    test = DriftTest()
    assert test.checked_share(0.1) == pytest.approx(1 / 3)

    for _ in range(66):
        test.observe(PROMISE, was_right=True)
    assert test.checked_share(0.1) == 0.1
    assert test.checked_share(0.5) == 0.5
