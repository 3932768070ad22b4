from fractions import Fraction

import pytest

from proxy.catalog.prices import tariff
from slo.price import (
    OffPeakDiscount,
    PeakWindow,
    PricePeriod,
    PriceSheet,
    PriceStep,
    Tariff,
    TokenRates,
)
from slo.toml.nodes import parse_toml
from slo.toml.problems import Problem

DOLLAR = 1_000_000_000
FULL = """\
input = "1"
cache_read = "0.1"
output = "5"
long = [{ above = 100, input = "2", output = "7.50" }]
service.batch = "0.5"
service.flex = { input = "0.60", output = "3" }
region = { us = "1.1" }
fast = "2"
off_peak = { factor = "0.5", peak = ["Mon 01:00-04:00"], holidays = [1970-01-05] }
"""


def read(text: str) -> tuple[Tariff, list[Problem]]:
    problems: list[Problem] = []
    return tariff(parse_toml(text, "c.toml"), Fraction("0.1"), problems), problems


def whats(text: str) -> list[str]:
    return [f"{problem.where}: {problem.what}" for problem in read(text)[1] if not problem.warning]


def test_everything_a_price_table_says_is_in_the_tariff() -> None:
    parsed, problems = read(FULL)
    assert problems == []
    assert parsed == Tariff(
        periods=(
            PricePeriod(
                sheets={
                    "": PriceSheet(
                        rates=TokenRates(input=DOLLAR, cache_read=100_000_000, output=5 * DOLLAR),
                        steps=(
                            PriceStep(
                                above=100, rates=TokenRates(input=2 * DOLLAR, output=7_500_000_000)
                            ),
                        ),
                    ),
                    "batch": PriceSheet(
                        rates=TokenRates(
                            input=500_000_000, cache_read=50_000_000, output=2_500_000_000
                        ),
                        steps=(
                            PriceStep(
                                above=100, rates=TokenRates(input=DOLLAR, output=3_750_000_000)
                            ),
                        ),
                    ),
                    "flex": PriceSheet(
                        rates=TokenRates(input=600_000_000, output=3 * DOLLAR),
                        steps=(PriceStep(above=100, rates=TokenRates()),),
                    ),
                },
                regions={"us": Fraction("1.1")},
                fast=Fraction(2),
                off_peak=OffPeakDiscount(
                    factor=Fraction("0.5"),
                    peak=(PeakWindow(weekdays=frozenset({0}), start=3600, end=14_400),),
                    holidays=frozenset({4}),
                ),
            ),
        ),
        discount=Fraction("0.1"),
    )


def test_a_service_tier_may_list_the_rates_of_its_long_calls() -> None:
    parsed, problems = read(
        'input = "1"\noutput = "0"\nlong = [{ above = 100, input = "2", output = "0" }]\n'
        'service.flex = { input = "0.5", output = "0", long = ['
        '{ above = 100, input = "1", output = "0" }] }'
    )
    assert problems == []
    assert parsed.periods[0].sheets["flex"].rates_for(101).input == DOLLAR


def test_a_change_inherits_what_it_does_not_restate() -> None:
    parsed, problems = read(
        'since = 2026-01-01\ninput = "1"\noutput = "5"\nservice.batch = "0.5"\n'
        'service.flex = { input = "0.5", output = "3" }\nregion.us = "1.1"\nfast = "2"\n'
        "[[changes]]\nsince = 2026-02-01\n"
        'input = "2"\n'
        "[[changes]]\nsince = 2026-03-01\n"
        'service.flex = { input = "1", output = "3" }\n'
        "[[changes]]\nsince = 2026-04-01\n"
        'region.us = "1.2"\n'
    )
    assert problems == []
    first, second, third, fourth = parsed.periods
    assert first.since == 1_767_225_600.0
    assert second.sheets[""].rates == TokenRates(input=2 * DOLLAR, output=5 * DOLLAR)
    assert second.sheets["batch"].rates == TokenRates(input=DOLLAR, output=2_500_000_000)
    assert second.fast == 2
    assert set(first.sheets) == {"", "batch", "flex"}
    assert third.sheets["flex"].rates.input == DOLLAR
    assert fourth.sheets == third.sheets
    assert fourth.regions == {"us": Fraction("1.2")}


def test_listed_service_tiers_are_unknown_once_the_standard_rates_moved() -> None:
    parsed, _ = read(
        'input = "1"\nservice.flex = { input = "0.5" }\n'
        '[[changes]]\nsince = 2026-02-01\ninput = "2"\n'
    )
    assert set(parsed.periods[1].sheets) == {""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('inptu = "1"', ["inptu: is not known"]),
        ("input = 1.5", ["input: is 1.5, not a decimal string"]),
        ("long = 3", ["long: is 3"]),
        ('long = [{ input = "1" }]', ["long[0]: has no above"]),
        ("long = [{ above = 9 }, { above = 9 }]", ["long[1]: is not above the one before"]),
        (
            'service.cheap = "0.5"',
            [
                "service.cheap: is not known",
            ],
        ),
        ("service = 3", ["service: is 3"]),
        ('service.batch = "half"', ['service.batch: is the string "half", not a decimal string']),
        ("service.flex = { long = 1 }", ["service.flex.long: is 1"]),
        (
            'input = "0.000000001"\nservice.batch = "0.5"',
            ["service.batch: makes prices of over 9 decimals"],
        ),
        ("region = 3", ["region: is 3"]),
        ('region.us = "x"', ['region.us: is the string "x", not a decimal string']),
        ("fast = 2.0", ["fast: is 2.0, not a decimal string"]),
        ("off_peak = 3", ["off_peak: is 3", "off_peak: has no factor"]),
        ('off_peak.factor = "x"', ['off_peak.factor: is the string "x", not a decimal string']),
        (
            'off_peak = { factor = "1", peak = ["x"], holidays = [1] }',
            ['off_peak.peak[0]: is the string "x"', "off_peak.holidays[0]: is 1"],
        ),
        ("since = 3", ["since: is 3"]),
        ("changes = 3", ["changes: is 3"]),
        ("changes = [3]", ["changes[0]: is 3", "changes[0]: has no since"]),
        ("[[changes]]\n", ["changes[0]: has no since"]),
        (
            "since = 2026-01-02\n[[changes]]\nsince = 2026-01-02\n",
            ["changes[0]: is not after the prices before"],
        ),
        (
            "[[changes]]\nsince = 2026-01-02\n[[changes]]\nsince = 2026-01-01\n",
            ["changes[1]: is not after the prices before"],
        ),
        (
            'long = [{ above = 1 }]\n[[changes]]\nsince = 2026-01-02\ninput = "1"',
            ["changes[0]: moves rates but not those of long calls"],
        ),
        ("[[changes]]\nsince = 2026-01-02\nservice = 1", ["changes[0].service: is 1"]),
        ("service = 1\n[[changes]]\nsince = 2026-01-02", ["service: is 1"]),
        ("[[changes]]\nsince = 2026-01-02\nchanges = []", ["changes[0].changes: is not known"]),
    ],
)
def test_each_mistake_in_a_price_is_reported_where_it_stands(
    text: str, expected: list[str]
) -> None:
    assert list(dict.fromkeys(whats(text))) == expected


def test_reading_dearer_than_input_is_a_warning() -> None:
    _, problems = read('input = "1"\noutput = "1"\ncache_read = "1.01"')
    assert [(problem.where, problem.warning) for problem in problems] == [("cache_read", True)]
    assert read('input = "1"\noutput = "1"\ncache_read = "1"')[1] == []
    assert read('cache_read = "1"')[1] == []


@pytest.mark.parametrize(
    ("text", "line", "where"),
    [
        ('input = "1"', 1, ""),
        ('input = "1"\noutput = "5"\nlong = [{ above = 9, input = "2" }]', 3, "long[0]"),
        ('input = "1"\noutput = "5"\nservice.flex = { input = "2" }', 3, "service.flex"),
    ],
)
def test_rates_without_output_are_a_warning(text: str, line: int, where: str) -> None:
    (problem,) = read(text)[1]
    assert (problem.line, problem.where, problem.warning) == (line, where, True)
    assert problem.what == "has no output, so what generates any is of unknown cost"
    assert problem.fix == 'write output, "0" where nothing is generated'


def test_a_model_that_generates_nothing_says_so() -> None:
    assert read('input = "1"\noutput = "0"')[1] == []
