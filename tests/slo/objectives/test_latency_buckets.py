import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.objectives.latency_buckets import (
    BOUNDS_MICROS,
    MAX_ERROR,
    bucket_of,
    bucket_seconds,
    percentiles,
)


@given(st.integers(BOUNDS_MICROS[0], BOUNDS_MICROS[-1] - 1))
def test_a_bucket_is_within_its_error_of_what_it_holds(micros: int) -> None:
    error = abs(bucket_seconds(bucket_of(micros)) * 1e6 / micros - 1)

    assert error <= MAX_ERROR + 1e-3  # bounds are whole microseconds


def test_bounds_belong_to_the_bucket_above_and_ends_are_open() -> None:
    assert (bucket_of(0), bucket_of(999), bucket_of(1_000)) == (0, 0, 1)
    assert bucket_of(10**12) == len(BOUNDS_MICROS)
    assert bucket_seconds(0) == 0.001
    assert bucket_seconds(10**6) == BOUNDS_MICROS[-1] / 1e6


@given(st.lists(st.integers(1_000, 10**8), min_size=1, max_size=200))
def test_percentiles_are_within_the_error_of_the_exact_ones(latencies: list[int]) -> None:
    counts: dict[int, int] = {}
    for latency in latencies:
        counts[bucket_of(latency)] = counts.get(bucket_of(latency), 0) + 1
    ranked = sorted(latencies)
    for percent, estimate in zip((50, 95, 99), percentiles(counts, (50, 95, 99)), strict=True):
        exact = ranked[-(-len(ranked) * percent // 100) - 1] / 1e6
        assert estimate == pytest.approx(exact, rel=MAX_ERROR + 1e-2)


def test_there_are_no_percentiles_of_nothing() -> None:
    assert percentiles({}, (50, 99)) == [None, None]
