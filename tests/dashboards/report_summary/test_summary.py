from dataclasses import replace
from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dashboards.cost_reports import CostSums
from dashboards.report_summary.summary import ReportSummary, report_summary
from dashboards.reports import ReportPeriod
from dashboards.savings_headline import SavingsSums, savings_headline
from dashboards.views.costs import MonthForecast
from tests.fakes.read_reports import a_read_report, costs_of, sum_up, sums_of

MONTH = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 12, 1), zone="UTC")
DAYS = ReportPeriod(first=date(2026, 11, 3), end=date(2026, 11, 10), zone="UTC")


def summary(*nanos: int, most_rows: int = 10, **changes: Any) -> ReportSummary:
    rows = [((f"f{n}",), sums_of(amount)) for n, amount in enumerate(nanos)]
    series = [(f"f{n}", amount, 1) for n, amount in enumerate(nanos)]
    made = a_read_report(MONTH, ("feature",), rows, costs=costs_of(MONTH, *series))
    return report_summary(replace(made, **changes), most_rows)


@given(st.lists(st.integers(0, 10**15), max_size=30), st.integers(0, 12))
def test_rows_and_the_rest_are_the_whole_and_the_dearest_come_first(
    nanos: list[int], most: int
) -> None:
    made = summary(*nanos, most_rows=most)
    costs = [row.sums.priced_nanos for row in made.rows]

    assert costs == sorted(nanos, reverse=True)[:most]
    assert made.rest_count == len(nanos) - len(costs)
    assert sum_up([*(row.sums for row in made.rows), made.rest]) == made.total
    assert made.total.priced_nanos == sum(nanos)


def test_parts_are_of_the_whole_cost_and_nothing_has_none() -> None:
    assert [row.part for row in summary(30, 10, most_rows=1).rows] == [0.75]
    assert [row.part for row in summary(0, 0).rows] == [0.0, 0.0]


def test_figures_stand_in_one_order_with_exact_amounts() -> None:
    saved = savings_headline(SavingsSums(cost_nanos=3, planning_nanos=-1))
    made = summary(2, 1)
    report = replace(made.read.report, savings=saved)
    figures = report_summary(replace(made.read, report=report), 5).figures

    assert [figure.title for figure in figures] == [
        "Spend", "Saved", "Calls", "Cache hit rate",
    ]  # fmt: skip
    assert [figure.exact for figure in figures[:2]] == [
        "$0.000000003", "−$0.000000001",  # noqa: RUF001
    ]  # fmt: skip
    assert figures[0].note == "+50 % vs October 2026 ($0.00000000200)"
    assert (figures[1].tone, figures[1].note) == (
        "bad",
        "estimated; −50.0 % of $0.00000000200 sent directly",  # noqa: RUF001
    )


def test_the_spend_says_how_much_of_it_is_estimated() -> None:
    costs = replace(costs_of(MONTH, ("a", 3, 1)), estimated_nanos=15 * 10**7)

    assert summary(3, costs=costs).figures[0].note.endswith("; $0.150 of it estimated")


def test_a_forecast_that_is_not_known_says_what_it_needs() -> None:
    forecast = MonthForecast(
        month="2026-11", spent_nanos=3, forecast_nanos=None, known_days=2, method="Needs 7 days."
    )
    costs = replace(costs_of(MONTH, ("a", 3, 1)), month=forecast)
    made = summary(3, costs=costs, read_at=float(MONTH.bounds[0] + 9_000))
    shown = {figure.title: figure for figure in made.figures}["Forecast"]

    assert (shown.value, shown.note) == ("?", "Needs 7 days.")
    assert made.title == "Costs of November 2026 so far"


def test_attempts_at_no_known_price_are_a_figure_and_unknown_costs_are_no_0() -> None:
    rows = [(("a",), sums_of(None, 3))]
    figures = report_summary(a_read_report(DAYS, ("feature",), rows), 5).figures

    assert [(figure.title, figure.value) for figure in figures] == [
        ("Spend", "?"), ("Calls", "3"), ("Cache hit rate", "0.0 %"), ("Unpriced", "3"),
    ]  # fmt: skip


def test_title_names_the_only_team_by_its_name_and_other_filters_by_their_dimension() -> None:
    read = a_read_report(DAYS, ("team",), (), names={"t1": "acme\nsupport"})
    filters = {"team": "t1", "feature": "chat"}

    assert report_summary(read, 5, filters).title.startswith(
        "Costs of acme support, feature chat, "
    )


def test_a_title_names_a_month_or_the_days() -> None:
    day = ReportPeriod(first=date(2026, 11, 3), end=date(2026, 11, 4), zone="UTC")
    titles = [
        report_summary(a_read_report(period, ("team",), ()), 5).title
        for period in (MONTH, DAYS, day)
    ]

    assert titles == [
        "Costs of November 2026", "Costs of 2026-11-03 to 2026-11-09", "Costs of 2026-11-03",
    ]  # fmt: skip


def test_names_of_rows_are_texts_of_one_line_and_teams_have_their_names() -> None:
    rows = [(("t1", "a\nb"), sums_of(2)), (("t2", ""), CostSums())]
    made = report_summary(a_read_report(DAYS, ("team", "feature"), rows, names={"t1": "acme"}), 5)

    assert [list(row.names) for row in made.rows] == [["acme", "a b"], ["t2", "(none)"]]
