import pytest

from proxy.records.amounts import cell, column, money, quantity


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "$0"),
        (-13_557_500, "-$0.0136"),
        (1_500_000, "$0.0015"),
        (5_123, "$0.00000512"),
        (1, "$0.000000001"),
        (100_000_000_000, "$100"),
        (-1_234_567_891_234, "-$1234.5679"),
    ],
)
def test_an_amount_is_rounded_and_its_sign_stands_before_the_dollar(nanos: int, text: str) -> None:
    assert money(nanos) == text


def test_the_amounts_of_a_column_have_one_scale() -> None:
    assert column([2_500_000_000, 0, -1_000_000, None]) == [
        "$2.5000", "$0.0000", "-$0.0010", "unknown",
    ]  # fmt: skip


def test_a_column_has_as_many_digits_as_its_smallest_amount_needs() -> None:
    assert column([5_123, 1_234_567_891_234]) == ["$0.0000051", "$1,234.5678912"]
    assert column([1, 10**18]) == ["$0.000000001", "$1,000,000,000.000000000"]
    assert column([]) == []


def test_amounts_too_large_for_a_float_keep_every_digit() -> None:
    assert cell(9_007_199_254_740_993_000_000_001, 9) == "$9,007,199,254,740,993.000000001"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 budgets"), (1, "1 budget"), (2, "2 budgets"), (1_200, "1,200 budgets")],
)
def test_a_count_has_its_noun_in_the_singular_for_one_alone(count: int, text: str) -> None:
    assert quantity(count, "budget") == text
