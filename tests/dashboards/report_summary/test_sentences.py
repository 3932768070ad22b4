from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from dashboards.cost_reports import CostSums
from dashboards.report_summary.read_report import ReadReport
from dashboards.report_summary.sentences import summary_sentences
from dashboards.reports import ReportPeriod
from dashboards.savings_headline import SavingsSums, savings_headline
from dashboards.views.costs import MonthForecast
from tests.fakes.read_reports import a_read_report, costs_of, sum_up, sums_of

MONTH = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 12, 1), zone="UTC")
DOLLAR = 10**9


def read(*series: tuple[str, int, int], **changes: Any) -> ReadReport:
    """A report of November by feature: each with its cost now, and in October."""
    rows = [((name,), sums_of(now)) for name, now, _ in series]
    made = a_read_report(MONTH, ("feature",), rows, costs=costs_of(MONTH, *series))
    return replace(made, **changes)


def sentences(made: ReadReport, **sums: Any) -> list[str]:
    total = sum_up([row.sums for row in made.report.rows]).plus(CostSums(**sums))
    return summary_sentences(made, total)


@pytest.mark.parametrize(
    ("series", "sentence"),
    [
        (
            (("support", 9 * DOLLAR, 2 * DOLLAR), ("search", 3 * DOLLAR, 4 * DOLLAR)),
            (
                "Spend rose 100 % to $12.00 vs October 2026 ($6.00), mostly by feature support"
                " (+$7.00)."
            ),
        ),
        (
            (("support", DOLLAR, 2 * DOLLAR), ("(others)", 2 * DOLLAR, 6 * DOLLAR)),
            (
                "Spend fell 62 % to $3.00 vs October 2026 ($8.00), mostly by all other features"
                " (−$4.00)."  # noqa: RUF001
            ),
        ),
        (
            tuple((name, 2 * DOLLAR, DOLLAR) for name in "abc"),
            "Spend rose 100 % to $6.00 vs October 2026 ($3.00), led by feature a (+$1.00).",
        ),
        ((("a", DOLLAR, DOLLAR),), "Spend was $1.00, the same as in October 2026."),
        ((("a", DOLLAR, 0),), "Spend was $1.00, after none in October 2026."),
        ((("a", 3, 2),), "Spend rose 50 % to $0.00000000300 vs October 2026 ($0.00000000200)."),
    ],
)
def test_the_first_sentence_says_how_the_spend_moved_and_by_what(
    series: tuple[tuple[str, int, int], ...], sentence: str
) -> None:
    assert sentences(read(*series))[0] == sentence


def test_a_comparison_says_from_which_day_on_calls_are_known() -> None:
    made = read(("a", 3 * DOLLAR, DOLLAR))
    assert made.costs is not None
    half = replace(made, costs=replace(made.costs, first_call=date(2026, 10, 17)))
    none = replace(made, costs=replace(made.costs, first_call=date(2026, 11, 17)))

    assert sentences(half)[0] == "Spend rose 200 % to $3.00 vs October 2026 ($1.00)."
    assert "The earlier period has calls from 17 Oct." in sentences(half)
    assert sentences(none)[0] == "Spend was $3.00, no calls known before 17 Nov."


def test_an_earlier_day_that_counts_up_to_an_hour_says_so() -> None:
    day = ReportPeriod(first=date(2026, 12, 1), end=date(2026, 12, 2), zone="UTC")
    first = date(2026, 11, 1)
    end = ReportPeriod(first=first, end=first, zone="UTC").bounds[0] + 13 * 3_600
    costs = replace(
        costs_of(day, ("a", DOLLAR, 0)), before_first=first, before_last=first, before_end=end
    )
    made = a_read_report(day, ("feature",), [(("a",), sums_of(DOLLAR))], costs=costs)

    assert sentences(made)[0] == "Spend was $1.00, after none in 1 November."
    assert "The earlier period is counted up to 13:00." in sentences(made)


def test_an_unknown_spend_is_said_to_be_unknown() -> None:
    made = a_read_report(MONTH, ("feature",), [(("a",), sums_of(None, 3))])

    assert sentences(made) == [
        "The spend is not known: none of 3 attempts has a known price.",
        "None of 3 calls failed, and 0.0 % of all prompt tokens were read from caches.",
        "3 attempts have no known price and are in no cost.",
    ]


def test_a_report_whose_costs_over_time_are_not_known_compares_nothing() -> None:
    made = replace(read(("a", DOLLAR, 1)), costs=None)

    assert sentences(made) == [
        "Spend was $1.00.",
        "None of 1 calls failed, and 0.0 % of all prompt tokens were read from caches.",
    ]


def test_a_period_without_calls_has_one_sentence() -> None:
    assert sentences(read()) == ["No calls in this period."]


def test_the_dearest_value_and_day_are_named() -> None:
    made = read(("support", 3 * DOLLAR, 1), ("search", DOLLAR, 1))
    assert made.costs is not None
    second = replace(
        made.costs.series[1], cost_nanos=[0, 0, 5 * DOLLAR, *[0] * (len(MONTH.days) - 3)]
    )
    costs = replace(made.costs, series=[made.costs.series[0], second])
    text = sentences(replace(made, costs=costs))

    assert text[1] == "Feature support cost most: $3.00, 75.0 % of all."
    assert text[-1] == "The dearest day was 3 November with $5.00."


def test_savings_are_said_with_their_interval_and_losses_as_such() -> None:
    measured = SavingsSums(cost_nanos=3 * DOLLAR, planning_nanos=DOLLAR, below_nanos=DOLLAR // 2)
    lost = SavingsSums(cost_nanos=3 * DOLLAR, planning_nanos=-DOLLAR)
    texts = [
        sentences(replace(made, report=replace(made.report, savings=savings_headline(sums))))[1]
        for made in [read(("a", 3 * DOLLAR, 1))]
        for sums in (measured, lost)
    ]

    assert texts == [
        (
            "Thriftgate saved $1.00, 25.0 % of what sending directly would have cost; by control"
            " arms it is 95 % sure to lie between $0.500 and $1.00."
        ),
        "Sending directly would have cost an estimated $1.00 less, 50.0 %.",
    ]


def test_the_cost_of_running_the_gateway_is_said_with_the_savings() -> None:
    made = read(("a", 6 * DOLLAR, 1))
    sums = SavingsSums(cost_nanos=6 * 10**9, planning_nanos=4 * 10**9)
    saved = savings_headline(sums, running_nanos=10**9)
    text = sentences(replace(made, report=replace(made.report, savings=saved)))[1]

    assert "saved an estimated $3.00" in text
    assert text.endswith(", with $1.00 for running the gateway taken off.")


def test_a_month_that_is_running_has_its_forecast_in_place_of_the_dearest_day() -> None:
    made = read(("a", 2 * DOLLAR, DOLLAR), ("b", DOLLAR, DOLLAR))
    assert made.costs is not None
    forecast = MonthForecast(
        month="2026-11", spent_nanos=1, forecast_nanos=9 * DOLLAR, known_days=28, method="",
        low_nanos=8 * DOLLAR, high_nanos=10 * DOLLAR,
    )  # fmt: skip
    running = replace(
        made,
        costs=replace(made.costs, month=forecast),
        read_at=float(MONTH.bounds[0] + timedelta(days=20).total_seconds()),
    )

    assert sentences(running)[-1] == (
        "November 2026 should come to $9.00, 95 % sure to lie between $8.00 and $10.00, if days go"
        " on as in the last four weeks."
    )
    assert "should come to" not in " ".join(sentences(replace(running, read_at=made.read_at)))


def test_there_are_at_most_six_sentences_and_long_names_are_cut() -> None:
    made = read(("n" * 500, 3 * DOLLAR, 1), ("b\nc", DOLLAR, 1))
    saved = savings_headline(SavingsSums(cost_nanos=3, planning_nanos=1))
    texts = sentences(
        replace(made, report=replace(made.report, savings=saved)), unpriced=2, attempts=2
    )

    assert 3 <= len(texts) <= 6
    assert all(len(text) < 200 and len(text.splitlines()) == 1 for text in texts)
