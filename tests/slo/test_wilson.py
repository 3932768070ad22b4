from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.wilson import lower_bound, upper_bound

COUNTS = st.integers(1, 10**9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
Z = 1.6448536269514722


def test_bounds_without_counts_are_zero_and_one() -> None:
    assert (lower_bound(0, 0), upper_bound(0, 0)) == (0.0, 1.0)


@given(st.integers(1, 10**9))
def test_bounds_of_none_and_all_bad_are_at_the_ends(n: int) -> None:
    assert lower_bound(0, n) == 0.0
    assert upper_bound(n, n) == 1.0
    assert lower_bound(n, n) < 1.0
    assert upper_bound(0, n) > 0.0


@given(COUNTS)
def test_the_share_counted_lies_between_its_bounds(counts: tuple[int, int]) -> None:
    bad, n = counts
    assert 0.0 <= lower_bound(bad, n) <= bad / n <= upper_bound(bad, n) <= 1.0


@given(COUNTS)
def test_each_bound_is_a_share_from_which_the_count_is_z_deviations_away(
    counts: tuple[int, int],
) -> None:
    bad, n = counts
    for bound, ends in ((lower_bound(bad, n), 0), (upper_bound(bad, n), n)):
        if bad != ends:
            away = abs(bad / n - bound)
            assert away == pytest.approx(Z * sqrt(bound * (1 - bound) / n), rel=1e-5, abs=1e-12)


@given(COUNTS)
def test_more_that_is_bad_raises_both_bounds(counts: tuple[int, int]) -> None:
    bad, n = counts
    assert lower_bound(bad, n + 1) <= lower_bound(bad + 1, n + 1)
    assert upper_bound(bad, n + 1) <= upper_bound(bad + 1, n + 1)


@pytest.mark.parametrize(
    ("bad", "n"), [(3, 20), (6, 50), (9, 100), (16, 200), (34, 500), (62, 1000)]
)
def test_the_lower_bound_passes_5_percent_at_this_count_and_not_one_below(bad: int, n: int) -> None:
    assert lower_bound(bad, n) > 0.05
    assert lower_bound(bad - 1, n) <= 0.05


@pytest.mark.parametrize(("bad", "n"), [(1, 100), (4, 200), (16, 500)])
def test_the_upper_bound_is_under_5_percent_at_this_count_and_not_one_above(
    bad: int, n: int
) -> None:
    assert upper_bound(bad, n) < 0.05
    assert upper_bound(bad + 1, n) >= 0.05


@pytest.mark.parametrize(("bad", "n"), [(2, 1), (-1, 1), (0, -1)])
def test_a_count_above_its_total_is_refused(bad: int, n: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        lower_bound(bad, n)
    with pytest.raises(ValueError, match="no share"):
        upper_bound(bad, n)
