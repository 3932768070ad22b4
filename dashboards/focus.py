"""Costs as a FOCUS dataset: one charge a day for each team, feature, key, model and route.

The gateway issues no invoice: ``BilledCost`` is 0, and ``EffectiveCost`` is what the provider is
expected to bill. A charge sums tokens of several prices, so it has no unit prices. Savings are no
charges: a credit that no invoice has would break its reconciliation.

Source: FOCUS Specification 1.2 (2025-05) and 1.4 (2026-06), Cost and Usage, https://focus.finops.org
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from dashboards.cost_formats import Cell, csv_text
from dashboards.cost_reports import (
    CostReport,
    CostRow,
    CostSums,
    Dimension,
    next_month,
    usd_decimal,
)
from dashboards.reports import ReportPeriod, is_tag
from slo.usage import TAG_PREFIX

#: Dimensions of a report from which the charges are made.
FOCUS_DIMENSIONS: Final[tuple[Dimension, ...]] = (
    "day", "team", "feature", "key", "model", "provider", "upstream", "route"
)  # fmt: skip
#: Beginning of the names of the gateway's own columns.
_OWN: Final = "x_"
#: A row from which the names of the columns are read.
_NO_CHARGE: Final = CostRow(("2026-01-01", *("",) * (len(FOCUS_DIMENSIONS) - 1)), CostSums())
#: The provider of what no upstream served.
_GATEWAY: Final = "thriftgate"


class FocusVersion(StrEnum):
    """A version of the specification."""

    V1_2 = "1.2"
    V1_4 = "1.4"


#: Columns that name the provider.
_PARTICIPANTS: Final = (
    "HostProviderName",
    "InvoiceIssuerName",
    "ProviderName",
    "PublisherName",
    "ServiceProviderName",
)
#: 1.3 deprecated names of provider and publisher, and 1.4 removed them.
_ADDED: Final[Mapping[FocusVersion, tuple[str, ...]]] = {
    FocusVersion.V1_2: ("ProviderName", "PublisherName"),
    FocusVersion.V1_4: ("HostProviderName", "InvoiceDetailId", "ServiceProviderName"),
}


@dataclass(frozen=True, slots=True)
class FocusExport:
    """The dataset as CSV, and what it could not hold.

    Attributes:
        charges: Rows in it.
        left_out: Attempts of rows without any known price: the specification has no unknown cost.
    """

    text: str
    charges: int
    left_out: int


def focus_dimensions(also: Iterable[Dimension] = ()) -> tuple[Dimension, ...]:
    """The dimensions of charges, and after them the tags among others."""
    return (*FOCUS_DIMENSIONS, *(dimension for dimension in also if is_tag(dimension)))


def focus_columns(version: FocusVersion) -> tuple[str, ...]:
    """The columns of a version: the specification's by name, then those of the gateway."""
    left_out = {name for names in _ADDED.values() for name in names} - {*_ADDED[version]}
    columns = [name for name in _charge(_NO_CHARGE, {}, "UTC") if name not in left_out]
    return (
        *sorted(name for name in columns if not name.startswith(_OWN)),
        *(name for name in columns if name.startswith(_OWN)),
    )


def focus_export(
    report: CostReport, teams: Mapping[str, str], version: FocusVersion
) -> FocusExport:
    """The charges of a report by ``focus_dimensions``.

    Raises:
        ValueError: The report has other dimensions.
    """
    if report.by != focus_dimensions(report.by):
        raise ValueError(f"FOCUS charges are made of {FOCUS_DIMENSIONS}, not of {report.by}")
    columns = focus_columns(version)
    priced = [row for row in report.rows if row.sums.cost_nanos is not None]
    charges = [
        row for row in priced if row.sums.tokens or row.sums.cost_nanos or row.sums.list_nanos
    ]
    keys = [tag.removeprefix(TAG_PREFIX) for tag in report.by[len(FOCUS_DIMENSIONS) :]]
    cells = (_charge(row, teams, report.period.zone, keys) for row in charges)
    text = csv_text(columns, ([cell[name] for name in columns] for cell in cells))
    left_out = sum(row.sums.unpriced for row in report.rows if row.sums.cost_nanos is None)
    return FocusExport(text, len(charges), left_out)


def _charge(
    row: CostRow, teams: Mapping[str, str], zone: str, keys: Iterable[str] = ()
) -> dict[str, Cell]:
    """The cells of a charge by column, of all versions.

    Args:
        keys: Keys of the tags whose values stand behind those of its own dimensions.
    """
    day, team, feature, key, model, provider, upstream, route, *values = row.values
    owner = provider or _GATEWAY
    sku = model or route or owner
    return {
        **_periods(date.fromisoformat(day), zone),
        "BillingAccountId": upstream or _GATEWAY,
        "BillingAccountName": None,
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeDescription": f"{sku} by {owner}",
        "ChargeFrequency": "Usage-Based",
        "CommitmentDiscountStatus": None,
        "InvoiceDetailId": None,
        "InvoiceId": None,
        **dict.fromkeys(_PARTICIPANTS, owner),
        "PricingCategory": "Standard",
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": f"{owner} API",
        "ServiceSubcategory": "Generative AI",
        "SkuId": sku,
        "SkuPriceId": f"{owner}/{sku}",
        "SubAccountId": team,
        "SubAccountName": teams.get(team, team),
        "Tags": _tags_json({**dict(zip(keys, values, strict=True)), "feature": feature}),
        "x_Feature": feature or None,
        "x_KeyId": key or None,
        "x_Route": route or None,
        **_costs(row.sums),
    }


def _tags_json(tags: Mapping[str, str]) -> str | None:
    """Those tags that have a value."""
    named = {key: value for key, value in tags.items() if value}
    return json.dumps(named) if named else None


def _periods(day: date, zone: str) -> dict[str, Cell]:
    """A day and its month in the report's time zone, from start to end, in UTC."""
    charge = ReportPeriod(first=day, end=date.fromordinal(day.toordinal() + 1), zone=zone)
    billing = ReportPeriod(first=day.replace(day=1), end=next_month(day), zone=zone)
    names = ("ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodStart", "BillingPeriodEnd")
    bounds = (*charge.bounds, *billing.bounds)
    return {
        name: f"{datetime.fromtimestamp(bound, UTC):%Y-%m-%dT%H:%M:%SZ}"
        for name, bound in zip(names, bounds, strict=True)
    }


def _costs(sums: CostSums) -> dict[str, Cell]:
    """Costs and quantities; calls that are not paid by tokens are counted in requests."""
    usage, cost = sums.usage, usd_decimal(sums.priced_nanos)
    unit, count = ("Tokens", sums.tokens) if sums.tokens else ("Requests", sums.attempts)
    quantity = Decimal(f"{count}.0")  # a whole column of integers is read as no decimal
    return {
        "BilledCost": usd_decimal(0),
        "BillingCurrency": "USD",
        "ListCost": usd_decimal(sums.priced_list_nanos),
        "ContractedCost": cost,
        "EffectiveCost": cost,
        **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), quantity),
        **dict.fromkeys(("ConsumedUnit", "PricingUnit", "SkuMeter"), unit),
        "x_Attempts": sums.attempts,
        "x_InputTokens": usage.prompt_tokens,
        "x_CacheReadTokens": usage.cache_read,
        "x_CacheWriteTokens": usage.cache_write_tokens,
        "x_OutputTokens": usage.generated_tokens,
        "x_EstimatedAttempts": sums.estimated,
        "x_UnpricedAttempts": sums.unpriced,
    }
