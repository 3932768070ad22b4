import csv
import io
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.cost_reports import CostReport, cost_report
from dashboards.focus import FOCUS_DIMENSIONS, FocusVersion, focus_columns, focus_export
from dashboards.reports import ReportPeriod, Spend
from slo.usage import Usage
from tests.fakes.focus_validator import focus_faults
from tests.fakes.spend_reports import SpendReports, a_spend

PERIOD = ReportPeriod(first=date(2026, 10, 24), end=date(2026, 11, 2), zone="Europe/Berlin")
VERSIONS = pytest.mark.parametrize("version", FocusVersion)
#: Names that outsiders choose; a team's and a model's are never without a letter.
NAMES = st.sampled_from(["=1+1", "-x", '@"q"', "a,b;=c", "\tt", "{}", "é\r\n", "m"])
SPENDS = st.builds(
    a_spend,
    team=NAMES,
    feature=NAMES | st.just(""),
    model=NAMES | st.just(""),
    route=NAMES | st.just(""),
    upstream=NAMES | st.just(""),
    usage=st.builds(Usage, input=st.integers(0, 9)),
    list_nanos=st.integers(0, 10**15),
    cost_nanos=st.integers(0, 10**15),
)


def report_of(spends: Sequence[Spend]) -> CostReport:
    start, end = PERIOD.bounds
    step = (end - start) // (len(spends) + 1)
    placed = [(start + n * step, spend) for n, spend in enumerate(spends)]
    return cost_report(SpendReports(*placed), PERIOD, FOCUS_DIMENSIONS, {"up": "acme"})


def charges(report: CostReport, version: FocusVersion) -> list[dict[str, str]]:
    text = focus_export(report, {"t1": "Team 1"}, version).text
    return list(csv.DictReader(io.StringIO(text, newline="")))


@VERSIONS
@given(spends=st.lists(SPENDS, max_size=12))
def test_any_report_is_a_valid_dataset_and_keeps_every_nano_dollar(
    version: FocusVersion, spends: list[Spend]
) -> None:
    report = report_of(spends)
    export = focus_export(report, {}, version)
    rows = charges(report, version)

    assert focus_faults(export.text, version) == []
    assert len(rows) == export.charges
    assert sum(Decimal(row["EffectiveCost"]) for row in rows) * 10**9 == report.total.priced_nanos
    assert sum(Decimal(row["ListCost"]) for row in rows) * 10**9 == report.total.priced_list_nanos
    assert {row["BilledCost"] for row in rows} <= {"0.000000000"}


@VERSIONS
def test_a_charge_says_who_used_what_when_and_at_what_cost(version: FocusVersion) -> None:
    (row,) = charges(report_of([a_spend(feature="chat")]), version)

    assert row["ChargePeriodStart"] == "2026-10-23T22:00:00Z"
    assert row["ChargePeriodEnd"] == "2026-10-24T22:00:00Z"
    assert row["BillingPeriodStart"] == "2026-09-30T22:00:00Z"
    assert row["BillingPeriodEnd"] == "2026-10-31T23:00:00Z"
    assert (row["ListCost"], row["EffectiveCost"], row["BilledCost"]) == (
        "0.000000009",
        "0.000000007",
        "0.000000000",
    )
    assert (row["PricingQuantity"], row["PricingUnit"], row["SkuId"]) == ("10.0", "Tokens", "m")
    assert (row["SubAccountId"], row["SubAccountName"]) == ("t1", "Team 1")
    assert (row["InvoiceIssuerName"], row["BillingAccountId"]) == ("acme", "up")
    assert (row["Tags"], row["x_Feature"], row["x_Route"]) == (
        '{"feature": "chat"}',
        "chat",
        "up/m",
    )


def test_provider_and_publisher_gave_way_to_service_and_host_provider() -> None:
    old, new = focus_columns(FocusVersion.V1_2), focus_columns(FocusVersion.V1_4)

    assert set(old) - set(new) == {"ProviderName", "PublisherName"}
    assert set(new) - set(old) == {"ServiceProviderName", "HostProviderName", "InvoiceDetailId"}


def test_charges_of_no_known_price_are_left_out_and_counted() -> None:
    unknown = a_spend(team="u", unpriced=3, list_nanos=None, cost_nanos=None)
    mixed = a_spend(team="m", unpriced=2)
    refused = a_spend(team="r", usage=Usage(), list_nanos=0, cost_nanos=0, upstream="", route="")
    report = report_of([unknown, mixed, refused])
    export = focus_export(report, {}, FocusVersion.V1_2)
    (row,) = charges(report, FocusVersion.V1_2)

    assert (export.charges, export.left_out) == (1, 3)
    assert (row["SubAccountId"], row["x_UnpricedAttempts"]) == ("m", "2")


def test_a_cost_without_tokens_is_counted_in_requests() -> None:
    (row,) = charges(report_of([a_spend(usage=Usage(), attempts=2)]), FocusVersion.V1_2)

    assert (row["PricingQuantity"], row["PricingUnit"]) == ("2.0", "Requests")


def test_savings_are_no_charges() -> None:
    (row,) = charges(report_of([a_spend()]), FocusVersion.V1_4)

    assert row["ChargeCategory"] == "Usage"
    assert not any("-" in row[name] for name in row if name.endswith("Cost"))


def test_a_report_by_other_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match="not of"):
        focus_export(cost_report(SpendReports(), PERIOD, ("team",)), {}, FocusVersion.V1_2)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("BilledCost", "Billed", "BilledCost is missing"),
        ("x_Feature", "Feature", "Feature is unknown"),
        ("Usage,", "Credits,", "ChargeCategory may not be 'Credits'"),
        ("0.000000007", "$7", "EffectiveCost is no decimal: '$7'"),
        ("2026-10-23T22:00:00Z", "2026-10-24", "ChargePeriodStart is no time: '2026-10-24'"),
        ("10.0", "10", "PricingQuantity is no decimal: '10'"),
        ("USD", "", "BillingCurrency is null"),
        ("2026-10-24T22:00:00Z", "2027-10-24T22:00:00Z",
         "its charge period is not within its billing period"),
    ],
)  # fmt: skip
def test_the_validator_finds_what_is_wrong(old: str, new: str, fault: str) -> None:
    text = focus_export(report_of([a_spend()]), {}, FocusVersion.V1_2).text

    assert old in text
    assert fault in focus_faults(text.replace(old, new), "1.2")
