"""Speeds come with an interval, from enough samples on, and belong to a band of sequences."""

import pytest

from proxy.engines.decode_speed import MIN_SAMPLES, SpeedSums, band_of


def test_a_speed_is_known_from_enough_samples_on():
    sums = SpeedSums()
    for number in range(MIN_SAMPLES):
        assert sums.tokens_per_s() is None
        sums.add_output(tokens=500.0 + 50 * (number % 2), decode_s=5.0)

    speed = sums.tokens_per_s()
    assert speed is not None
    assert speed.low < speed.value == 105.0 < speed.high


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
