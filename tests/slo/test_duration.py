import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.duration import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "long"),
    [
        ("500ms", 0.5),
        ("2s", 2.0),
        ("1m", 60.0),
        ("1.5h", 5400.0),
        ("3d", 259_200.0),
        ("0s", 0.0),
        ("0.1ms", 0.0001),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, long: float) -> None:
    assert parse_duration(text) == long


@pytest.mark.parametrize(
    "text",
    ["", "5", "s", "5 s", "-1s", "1e3s", "1m30s", "1w", ".5s", "5S", "1234567890s", "5s\n", "٣s"],
)
def test_a_text_that_is_no_duration_is_none(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("long", "text"),
    [
        (0.5, "500ms"),
        (2.0, "2s"),
        (90.0, "90s"),
        (150.0, "150s"),
        (1800.0, "30m"),
        (86_400.0, "1d"),
        (0.0, "0s"),
        (0.0001, "0.0001s"),
    ],
)
def test_a_duration_is_written_in_its_longest_whole_unit(long: float, text: str) -> None:
    assert format_duration(long) == text


@given(st.integers(0, 10**15).map(lambda nanos: round(nanos / 10**9, 9)))
def test_a_duration_is_written_as_it_was_parsed(long: float) -> None:
    assert parse_duration(format_duration(long)) == long


@given(st.integers(0, 10**8))
def test_any_number_of_whole_seconds_is_a_duration(long: int) -> None:
    assert parse_duration(format_duration(long)) == long
