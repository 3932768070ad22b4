import pytest

from slo.decimals import normalize_decimal


@pytest.mark.parametrize(
    ("said", "meant"),
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
def test_a_decimal_is_said_with_a_point_and_never_a_hundred_times_larger(said, meant):
    assert normalize_decimal(said) == meant
