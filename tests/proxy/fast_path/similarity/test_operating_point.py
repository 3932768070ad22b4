import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.fast_path.similarity.operating_point import DriftTest, proved_point, upper_bound

PROMISE = 0.005


@pytest.mark.parametrize(
    ("wrong", "checked", "expected"), [(0, 598, 0.004997), (2, 1258, 0.00500), (5, 100, 0.10225)]
)
def test_upper_bound_is_that_of_clopper_and_pearson(wrong, checked, expected):
    assert upper_bound(wrong, checked) == pytest.approx(expected, rel=2e-3)


@given(st.integers(0, 20), st.integers(21, 400))
def test_upper_bound_lies_above_the_share_and_grows_with_wrong_ones(wrong, checked):
    assert wrong / checked < upper_bound(wrong, checked) <= upper_bound(wrong + 1, checked) <= 1.0


def test_few_checked_pairs_prove_nothing():
    assert proved_point([(5.0, True)] * 1_000, PROMISE) is None


def test_point_lies_above_the_scores_that_go_wrong():
    right = [(float(score), True) for score in range(3_000, 6_000)]
    mixed = [(float(score), score % 4 > 0) for score in range(3_000)]

    point = proved_point(right + mixed, PROMISE)

    assert point is not None
    assert point.score >= 2_980
    assert point.bound <= PROMISE
    assert point.checked >= 2_000


def test_share_above_the_promise_is_hardly_ever_proved():
    proofs = 0
    for seed in range(200):
        dice = random.Random(seed)  # noqa: S311 # no secret
        pairs = [(dice.random(), dice.random() >= 0.0055) for _ in range(2_500)]
        proofs += proved_point(pairs, PROMISE) is not None

    assert proofs <= 10


def test_drift_stops_within_two_hundred_hits_and_promised_errors_do_not():
    slow, false_stops = 0, 0
    for seed in range(100):
        dice = random.Random(seed)  # noqa: S311 # no secret
        test = DriftTest()
        hits = (test.observe(PROMISE, was_right=dice.random() >= 0.3) for _ in range(20))
        slow += not any(list(hits))
        test = DriftTest()
        hits = (test.observe(PROMISE, was_right=dice.random() >= 0.002) for _ in range(500))
        false_stops += any(list(hits))

    assert slow <= 5  # a tenth of 200 hits was checked
    assert false_stops <= 10
