from math import floor, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.quantile_sketch import LEAST, MOST, RELATIVE_ERROR, QuantileSketch, bucket

VALUES = st.lists(
    st.one_of(st.floats(min_value=0, max_value=1e15), st.integers(0, 10**15)), min_size=1
)
PARTS = st.floats(min_value=0, max_value=1)
ROUNDING = 1e-9


def spread(values: list[float]) -> QuantileSketch:
    counted = QuantileSketch()
    for value in values:
        counted.add(value)
    return counted


@given(VALUES, PARTS)
def test_every_quantile_is_within_two_percent_of_the_true_one(
    values: list[float], part: float
) -> None:
    true = sorted(values)[floor(part * (len(values) - 1))]
    assert spread(values).quantile(part) == pytest.approx(
        true, rel=RELATIVE_ERROR + ROUNDING, abs=LEAST
    )


@given(VALUES)
def test_the_mean_is_within_two_percent_of_the_true_one(values: list[float]) -> None:
    true = sum(values) / len(values)
    assert spread(values).mean() == pytest.approx(true, rel=RELATIVE_ERROR + ROUNDING, abs=LEAST)


@given(VALUES)
def test_a_store_that_adds_one_to_a_value_s_bucket_keeps_the_same_spread(
    values: list[float],
) -> None:
    stored: dict[int, int] = {}
    for value in values:
        stored[bucket(value)] = stored.get(bucket(value), 0) + 1
    assert QuantileSketch(stored).counts == spread(values).counts
    assert QuantileSketch(stored).total_count == len(values)


@given(VALUES, PARTS, PARTS)
def test_a_larger_part_never_has_a_smaller_quantile(
    values: list[float], one: float, other: float
) -> None:
    less, more = sorted((one, other))
    assert spread(values).quantile(less) <= spread(values).quantile(more)


def test_an_empty_sketch_has_no_values_and_its_quantiles_are_zero() -> None:
    assert (
        QuantileSketch().total_count,
        QuantileSketch().mean(),
        QuantileSketch().quantile(0.95),
    ) == (
        0,
        0.0,
        0.0,
    )


def test_a_spread_of_counts_leaves_those_counts_alone() -> None:
    counts = {3: 1}
    QuantileSketch(counts).add(100)
    assert counts == {3: 1}


def test_there_are_few_buckets_whatever_is_counted() -> None:
    everything = [10**exponent * digit for exponent in range(-9, 20) for digit in (1.0, 2.0, 5.0)]
    assert bucket(inf) - bucket(0.0) < 1_280
    assert all(bucket(0.0) <= bucket(value) <= bucket(inf) for value in everything)


def test_values_out_of_range_count_as_zero_or_the_largest() -> None:
    assert spread([LEAST]).quantile(1) == 0.0
    assert spread([LEAST * 1.001]).quantile(1) == pytest.approx(LEAST, rel=0.03)
    assert spread([inf]).quantile(1) == pytest.approx(MOST, rel=RELATIVE_ERROR)


def test_a_value_that_is_no_number_is_not_counted() -> None:
    counted = QuantileSketch()
    with pytest.raises(ValueError, match="not a number"):
        counted.add(nan)
    assert counted.total_count == 0


@pytest.mark.parametrize("part", [-0.1, 1.1, nan])
def test_a_part_is_from_zero_to_one(part: float) -> None:
    with pytest.raises(ValueError, match="a part is 0 to 1"):
        spread([1.0]).quantile(part)
