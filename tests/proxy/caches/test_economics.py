"""Section numbers are those of the provider reference the rules were taken from."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.economics import cost, least_shared, least_uses, pays

READ = Fraction(1, 10)
WRITE_30M = Fraction(5, 4)
WRITE_12H = Fraction(5, 2)
prices = st.fractions(0, 4, max_denominator=40)


@pytest.mark.parametrize(
    ("write", "read", "uses"),
    [
        (WRITE_30M, READ, 2),
        (WRITE_12H, READ, 3),
        (Fraction(2), READ, 3),
        (WRITE_30M, Fraction(1, 20), 2),
        (Fraction(2), Fraction(1, 20), 3),
        (WRITE_30M, Fraction(1, 40), 2),
        (Fraction(1), Fraction(1, 2), 2),
    ],
)
def test_1_2_and_2_3_writes_pay_from_the_second_or_third_use(
    write: Fraction, read: Fraction, uses: int
) -> None:
    assert least_uses(write, read) == uses


def test_1_2_gotcha_4_the_sums_behind_the_second_and_the_third_use() -> None:
    assert cost(2, WRITE_30M, READ) == Fraction("1.35")
    assert cost(2, WRITE_12H, READ) == Fraction("2.6")
    assert cost(3, WRITE_12H, READ) == Fraction("2.7")
    assert cost(2, Fraction(2), READ) == Fraction("2.1")
    assert cost(3, Fraction(2), READ) == Fraction("2.2")


def test_1_2_gotcha_5_a_prompt_sent_once_pays_a_quarter_more() -> None:
    assert cost(1, WRITE_30M, READ) - 1 == Fraction(1, 4)


@given(prices, prices)
def test_the_least_uses_are_the_first_that_cost_less_than_none(
    write: Fraction, read: Fraction
) -> None:
    cheaper = [uses for uses in range(1, 200) if cost(uses, write, read) < uses]

    assert least_uses(write, read) == (cheaper[0] if cheaper else None)


def test_a_read_at_full_price_never_pays_for_a_write() -> None:
    assert least_uses(WRITE_30M, Fraction(1)) is None


def test_1_2_gotcha_4_drawing_a_shared_prefix_out_pays_above_the_break_even() -> None:
    """2,000 tokens used 10 times: 2,000 * (0.1 + 1.15 / 10) = 430 must be shared anyway."""
    assert least_shared(2_000, 10, WRITE_30M, READ) == 430
    assert not pays(430, 2_000, 10, WRITE_30M, READ)
    assert pays(431, 2_000, 10, WRITE_30M, READ)


@given(st.integers(1, 5_000), st.integers(1, 5_000), st.integers(1, 50), prices, prices)
def test_1_2_gotcha_4_the_formula_is_the_comparison_of_the_two_bills(
    shared: int, marked: int, uses: int, write: Fraction, read: Fraction
) -> None:
    cached = marked * cost(uses, write, read)

    assert pays(shared, marked, uses, write, read) == (cached < uses * shared)
