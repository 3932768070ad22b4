import pytest

from slo.decimals import nanos_of_dollars, normalize_decimal, whole_number


@pytest.mark.parametrize(
    ("written", "normalized"),
    [
        ("0,05", "0.05"),
        ("2,5", "2.5"),
        ("12,25", "12.25"),
        ("0,125", "0.125"),
        ("1,250", "1250"),
        ("1,250.5", "1250.5"),
        ("1,250,000", "1250000"),
        ("$1.50", "1.50"),
        ("0.05 USD", "0.05"),
        ("1_000", "1000"),
        (2.5, "2.5"),
        ("1,2,3", "1,2,3"),
        ("1.250,5", "1.250,5"),
        ("cheap", "cheap"),
    ],
)
def test_decimal_is_written_with_a_point_and_never_a_hundred_times_larger(written, normalized):
    assert normalize_decimal(written) == normalized


@pytest.mark.parametrize(
    ("value", "nanos"),
    [("0.05", 50_000_000), (2, 2_000_000_000), ("1e3", None), (0.5, None), (True, None)],
)
def test_dollars_are_exact_or_none(value, nanos):
    assert nanos_of_dollars(value) == nanos


def test_a_whole_number_is_no_flag():
    assert [whole_number(value) for value in (3, True, 3.0, "3")] == [3, None, None, None]
