import csv
import io
from datetime import date

from dashboards.cost_formats import cost_csv, cost_document
from dashboards.cost_reports import cost_report
from dashboards.reports import ReportPeriod
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


def test_names_of_teams_and_features_are_inert_in_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(cost_csv(REPORT, {"t1": HOSTILE}), newline="")))

    assert [(row["team"], row["feature"]) for row in rows] == [
        (f"'{HOSTILE}", "'@f"),
        (f"'{HOSTILE}", "new"),
    ]


def test_an_unknown_cost_is_an_empty_cell_beside_its_count() -> None:
    catalog, unknown = csv.DictReader(io.StringIO(cost_csv(REPORT, {}), newline=""))

    assert (catalog["cost_usd"], catalog["unpriced_attempts"]) == ("0.000000007", "0")
    assert (unknown["cost_usd"], unknown["unpriced_attempts"]) == ("", "2")


def test_the_document_has_names_as_they_are_and_money_as_text() -> None:
    document = cost_document(REPORT, {"t1": HOSTILE})
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

    assert "team_id" not in cost_document(report, {})["rows"][0]
