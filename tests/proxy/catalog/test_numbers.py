from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog import numbers
from slo.price import PeakWindow
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import Problem


def node(written: str) -> Node:
    parsed: Node = parse_toml(f"x = {written}", "c.toml").value["x"]
    return parsed


@pytest.mark.parametrize(
    ("written", "nanos"),
    [
        ('"2.50"', 2_500_000_000),
        ("10", 10_000_000_000),
        ("0", 0),
        ('"0.0375"', 37_500_000),
        ('"0.000000001"', 1),
        ('"0.0000000010"', 1),
    ],
)
def test_a_price_is_exact(written: str, nanos: int) -> None:
    problems: list[Problem] = []
    assert numbers.nanos(node(written), problems) == nanos
    assert problems == []


@pytest.mark.parametrize(
    ("written", "what", "fix"),
    [
        ("2.5", "is 2.5, not a decimal string", 'write "2.5"'),
        ('"$2.50"', 'is the string "$2.50", not a decimal string', 'write "2.50"'),
        ('"1e3"', 'is the string "1e3", not a decimal string', 'write "2.50"'),
        ('"free"', 'is the string "free", not a decimal string', 'write "2.50"'),
        ("true", "is true, not a decimal string", 'write "2.50"'),
        ("[1]", "is an array, not a decimal string", 'write "2.50"'),
        ("{ a = 1 }", "is a table, not a decimal string", 'write "2.50"'),
        ('"-1"', "is negative", "write 0 or more"),
        ("-1", "is negative", "write 0 or more"),
        ("-1.5", "is negative", "write 0 or more"),
        ('"0.0000000001"', "has more than 9 decimals", "write at most 9"),
        ("inf", "is Infinity, not a decimal string", 'write "2.50"'),
    ],
)
def test_an_invalid_price_is_reported_with_its_fix(written: str, what: str, fix: str) -> None:
    problems: list[Problem] = []
    assert numbers.nanos(node(written), problems) is None
    assert [(problem.what, problem.fix) for problem in problems] == [(what, fix)]


@given(st.integers(0, 10**18 - 1))
def test_any_whole_number_of_nano_dollars_can_be_written(nanos: int) -> None:
    written = f'"{nanos // 10**9}.{nanos % 10**9:09}"'
    assert numbers.nanos(node(written), []) == nanos


def test_a_discount_is_a_part_of_one() -> None:
    problems: list[Problem] = []
    assert numbers.discount(node('"0.12"'), problems) == Fraction(3, 25)
    assert numbers.discount(node("1"), problems) == 1
    assert problems == []
    assert numbers.discount(node('"12"'), problems) == 0
    assert numbers.discount(node('"much"'), problems) == 0
    assert [problem.what for problem in problems] == [
        "is over 1",
        'is the string "much", not a decimal string',
    ]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2026-10-07", 1_791_331_200.0),
        ("2026-10-07T02:00:00+02:00", 1_791_331_200.0),
        ("2026-10-07T00:00:01Z", 1_791_331_201.0),
    ],
)
def test_a_day_begins_at_midnight_utc(written: str, seconds: float) -> None:
    problems: list[Problem] = []
    assert numbers.timestamp(node(written), problems) == seconds
    assert problems == []


@pytest.mark.parametrize("written", ["2026-10-07T00:00:00", '"2026-10-07"', "1791331200"])
def test_a_moment_needs_a_date_and_a_time_needs_a_zone(written: str) -> None:
    problems: list[Problem] = []
    assert numbers.timestamp(node(written), problems) is None
    assert "write a day, such as 2026-12-01" in problems[0].fix


def test_days_count_from_1970() -> None:
    assert numbers.days_since_epoch(date(1970, 1, 1)) == 0
    assert numbers.days_since_epoch(date(2026, 10, 1)) == 20_727


def test_hours_of_weekdays_are_a_window() -> None:
    problems: list[Problem] = []
    assert numbers.peak_window(node('"Mon-Fri 01:00-04:30"'), problems) == PeakWindow(
        weekdays=frozenset({0, 1, 2, 3, 4}), start=3600, end=16_200
    )
    assert numbers.peak_window(node('"Sun 00:00-24:00"'), problems) == PeakWindow(
        weekdays=frozenset({6}), start=0, end=86_400
    )
    assert problems == []


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ('"Mon-Fri 04:00-01:00"', "ends before it starts"),
        ('"Fri-Mon 01:00-04:00"', "ends before it starts"),
        ('"Mon 10:00-25:00"', "ends before it starts"),
        ('"weekdays"', 'is the string "weekdays"'),
        ("3", "is 3"),
    ],
)
def test_an_invalid_window_is_reported(written: str, what: str) -> None:
    problems: list[Problem] = []
    assert numbers.peak_window(node(written), problems) is None
    assert [problem.what for problem in problems] == [what]
