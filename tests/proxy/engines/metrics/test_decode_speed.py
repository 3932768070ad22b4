"""Speeds come with an interval, from enough samples on, and belong to a band of sequences."""

from math import exp, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.metrics.decode_speed import (
    MIN_SAMPLES,
    EstimateInterval,
    SpeedSums,
    band_of,
    speed_ratio,
)


def test_a_speed_is_known_from_enough_samples_on():
    sums = SpeedSums()
    for number in range(MIN_SAMPLES):
        assert sums.tokens_per_s() is None
        sums.add_output(tokens=500.0 + 50 * (number % 2), decode_s=5.0)

    speed = sums.tokens_per_s()
    assert speed is not None
    assert speed.low < speed.value == 105.0 < speed.high


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0.01, 60)), min_size=20, max_size=40))
def test_a_speed_is_all_tokens_by_all_seconds_within_its_interval(made):
    sums = SpeedSums()
    for tokens, seconds in made:
        sums.add_output(tokens, seconds)
    speed = sums.tokens_per_s()

    assert speed is not None
    assert speed.value == pytest.approx(sum(t for t, _ in made) / sum(s for _, s in made))
    assert speed.low <= speed.value <= speed.high


def test_a_speed_up_is_surest_where_both_speeds_are():
    ratio = speed_ratio(EstimateInterval(90, 100, 110), EstimateInterval(40, 50, 60))

    assert ratio == EstimateInterval(1.5, 2.0, 2.75)
    assert speed_ratio(None, EstimateInterval(40, 50, 60)) is None
    assert speed_ratio(EstimateInterval(90, 100, 110), EstimateInterval(0, 50, 60)) is None


def sure_share(correlation: float, gain: float) -> float:
    """Share of 400 comparisons, of speeds that differ by a gain, that are sure of a difference.

    Each has 20 samples with and 20 without, each of which is as alike to the one before.
    """
    dice = Random(7)  # noqa: S311 - noise

    def measure(speed: float) -> EstimateInterval:
        sums, luck = SpeedSums(), dice.gauss(0, 1)
        for _ in range(20):
            luck = correlation * luck + sqrt(1 - correlation**2) * dice.gauss(0, 1)
            sums.add_output(speed * exp(0.2 * luck), 1.0)
        measured = sums.tokens_per_s()
        assert measured is not None
        return measured

    ratios = [speed_ratio(measure(100 * gain), measure(100)) for _ in range(400)]
    return sum(one is not None and not one.low <= 1 <= one.high for one in ratios) / len(ratios)


def test_equal_speeds_are_seldom_sure_to_differ_though_a_machine_is_slow_for_a_while():
    assert sure_share(correlation=0.0, gain=1.0) < 0.02
    assert sure_share(correlation=0.5, gain=1.0) < 0.08
    assert sure_share(correlation=0.8, gain=1.0) < 0.16
    assert sure_share(correlation=0.0, gain=1.3) > 0.8


def test_weighing_less_leaves_the_speed_as_it_is():
    sums = SpeedSums()
    for _ in range(4 * MIN_SAMPLES):
        sums.add_output(tokens=500.0, decode_s=5.0)
    before = sums.tokens_per_s()
    sums.scale(0.5)

    assert sums.samples == 2 * MIN_SAMPLES
    assert sums.tokens_per_s() == before


@pytest.mark.parametrize(
    ("sequences", "band"), [(0.5, 1), (1.4, 1), (3.0, 4), (4.0, 4), (5.0, 8), (500, 512)]
)
def test_the_band_of_sequences_ends_at_the_next_power_of_two(sequences, band):
    assert band_of(sequences) == band


def test_the_last_band_is_for_all_above_it():
    assert band_of(9_000.0) == 1_024
