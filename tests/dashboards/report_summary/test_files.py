import csv
import io
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from types import MappingProxyType

from dashboards.cost_reports import CostReport, cost_report
from dashboards.report_summary.files import cost_csv, cost_document
from dashboards.report_summary.read_report import ReadReport
from dashboards.reports import ReportPeriod
from tests.fakes.read_reports import costs_of
from tests.fakes.spend_reports import SpendReports, a_spend

PERIOD = ReportPeriod(first=date(2026, 11, 1), end=date(2026, 12, 1), zone="UTC")
START = PERIOD.bounds[0]
HOSTILE = '=HYPERLINK("http://x","y")'
REPORT = cost_report(
    SpendReports(
        (START, a_spend(feature="@f", user="+u")),
        (START, a_spend(feature="new", unpriced=2, list_nanos=None, cost_nanos=None)),
    ),
    PERIOD,
    ("team", "feature"),
)


NO_NAMES: Mapping[str, str] = MappingProxyType({})


def read(names: Mapping[str, str] = NO_NAMES, report: CostReport = REPORT) -> ReadReport:
    return ReadReport(report=report, names=names, costs=None, forecasts=None, read_at=0.0)


def csv_rows(made: ReadReport) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(cost_csv(made), newline="")))


def test_names_of_teams_and_features_are_inert_in_csv() -> None:
    rows = csv_rows(read({"t1": HOSTILE}))

    assert [(row["team"], row["feature"]) for row in rows] == [
        (f"'{HOSTILE}", "'@f"),
        (f"'{HOSTILE}", "new"),
    ]


def test_an_unknown_cost_is_an_empty_cell_beside_its_count() -> None:
    catalog, unknown = csv_rows(read())

    assert (catalog["cost_usd"], catalog["unpriced_attempts"]) == ("0.000000007", "0")
    assert (unknown["cost_usd"], unknown["unpriced_attempts"]) == ("", "2")


def test_the_document_has_names_as_they_are_and_money_as_text() -> None:
    document = cost_document(read({"t1": HOSTILE}))
    first, second = document["rows"]

    assert (document["from"], document["to"], document["zone"]) == (
        "2026-11-01",
        "2026-11-30",
        "UTC",
    )
    assert (first["team"], first["team_id"], first["feature"]) == (HOSTILE, "t1", "@f")
    assert (first["list_cost_usd"], first["cost_usd"]) == ("0.000000009", "0.000000007")
    assert second["cost_usd"] is None
    assert document["total"]["cost_usd"] == "0.000000007"
    assert document["total"]["unpriced_attempts"] == 2


def test_without_teams_there_is_no_id_of_one() -> None:
    report = cost_report(SpendReports((START, a_spend())), PERIOD, ("model",))

    assert "team_id" not in cost_document(read(report=report))["rows"][0]


def test_files_have_forecasts_and_the_earlier_period_where_the_page_shows_them() -> None:
    (priced_row, _) = REPORT.rows
    made = replace(
        read(), costs=costs_of(PERIOD, ("@f", 7, 5)), forecasts={priced_row.values: 12_000_000_007}
    )
    shown, plain = cost_document(made), cost_document(read())

    assert [row["forecast_usd"] for row in shown["rows"]] == ["12.000000007", None]
    assert [row["forecast_usd"] for row in csv_rows(made)] == ["12.000000007", ""]
    assert shown["earlier"] == {
        "from": "2026-10-01", "to": "2026-10-31", "calls": 1, "cost_usd": "0.000000005",
    }  # fmt: skip
    assert shown["sentences"][0].startswith("Spend rose 40 % to ")
    assert (plain["earlier"], plain["forecast"]) == (None, None)
    assert "forecast_usd" not in cost_csv(read())
    assert "forecast_usd" not in plain["rows"][0]


def test_the_files_of_a_report_have_the_same_figures() -> None:
    rows = cost_document(read())["rows"]

    for cells, row in zip(csv_rows(read()), rows, strict=True):
        assert {name: str("" if row[name] is None else row[name]) for name in cells} == {
            name: cell.removeprefix("'") for name, cell in cells.items()
        }
    assert sum(Decimal(row["cost_usd"] or 0) for row in rows) == Decimal("0.000000007")
