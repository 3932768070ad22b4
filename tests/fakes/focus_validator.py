"""Checks a FOCUS dataset: columns, types, nulls, allowed values, and rules between columns.

A decimal has a point: readers that infer types take a column of whole numbers for integers.

Source: FOCUS Specification 1.2 (2025-05) and 1.4 (2026-06), Cost and Usage, https://focus.finops.org
"""

import csv
import io
import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

import orjson


class FocusColumn(NamedTuple):
    """A column of the specification.

    Attributes:
        kind: Type of its values: text, decimal, time, currency, unit or tags.
        nulls: True if it may be empty.
        is_mandatory: True if every dataset has it.
        allowed: Values it may have; none for any.
    """

    kind: str = "text"
    nulls: bool = False
    is_mandatory: bool = True
    allowed: tuple[str, ...] = ()


_OPTIONAL = FocusColumn(nulls=True, is_mandatory=False)
_COLUMNS: Final = {
    "BilledCost": FocusColumn("decimal"),
    "BillingAccountId": FocusColumn(),
    "BillingAccountName": FocusColumn(nulls=True),
    "BillingCurrency": FocusColumn("currency"),
    "BillingPeriodEnd": FocusColumn("time"),
    "BillingPeriodStart": FocusColumn("time"),
    "ChargeCategory": FocusColumn(allowed=("Usage", "Purchase", "Tax", "Credit", "Adjustment")),
    "ChargeClass": FocusColumn(nulls=True, allowed=("Correction",)),
    "ChargeDescription": FocusColumn(nulls=True),
    "ChargeFrequency": FocusColumn(
        is_mandatory=False, allowed=("One-Time", "Recurring", "Usage-Based")
    ),
    "ChargePeriodEnd": FocusColumn("time"),
    "ChargePeriodStart": FocusColumn("time"),
    "CommitmentDiscountStatus": FocusColumn(
        nulls=True, is_mandatory=False, allowed=("Used", "Unused")
    ),
    "ConsumedQuantity": FocusColumn("decimal", nulls=True, is_mandatory=False),
    "ConsumedUnit": FocusColumn("unit", nulls=True, is_mandatory=False),
    "ContractedCost": FocusColumn("decimal"),
    "EffectiveCost": FocusColumn("decimal"),
    "InvoiceId": _OPTIONAL,
    "InvoiceIssuerName": FocusColumn(),
    "ListCost": FocusColumn("decimal"),
    "PricingCategory": FocusColumn(
        nulls=True, is_mandatory=False, allowed=("Standard", "Dynamic", "Committed", "Other")
    ),
    "PricingQuantity": FocusColumn("decimal", nulls=True),
    "PricingUnit": FocusColumn("unit", nulls=True),
    "ServiceCategory": FocusColumn(
        allowed=(
            "AI and Machine Learning",
            "Analytics",
            "Business Applications",
            "Compute",
            "Databases",
            "Developer Tools",
            "Multicloud",
            "Identity",
            "Integration",
            "Internet of Things",
            "Management and Governance",
            "Media",
            "Migration",
            "Mobile",
            "Networking",
            "Security",
            "Storage",
            "Web",
            "Other",
        )
    ),
    "ServiceName": FocusColumn(),
    "ServiceSubcategory": FocusColumn(
        is_mandatory=False,
        allowed=(
            "AI Platforms",
            "Bots",
            "Generative AI",
            "Machine Learning",
            "Natural Language Processing",
            "Other (AI and Machine Learning)",
        ),
    ),
    "SkuId": _OPTIONAL,
    "SkuMeter": _OPTIONAL,
    "SkuPriceId": _OPTIONAL,
    "SubAccountId": _OPTIONAL,
    "SubAccountName": _OPTIONAL,
    "Tags": FocusColumn("tags", nulls=True, is_mandatory=False),
}
COLUMNS: Final = {
    "1.2": _COLUMNS | {"ProviderName": FocusColumn(), "PublisherName": FocusColumn()},
    "1.4": _COLUMNS
    | {
        "HostProviderName": FocusColumn(nulls=True),
        "InvoiceDetailId": FocusColumn(nulls=True),
        "ServiceProviderName": FocusColumn(),
    },
}
_PATTERNS: Final = {
    "text": re.compile(r"(?s).*\S.*"),
    "decimal": re.compile(r"-?\d+\.\d+"),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "currency": re.compile(r"[A-Z]{3}"),
    "unit": re.compile(r"(\d+ )?(Tokens|Requests)"),
    "tags": re.compile(r"(?s)\{.*\}"),
}


def focus_faults(text: str, version: str) -> list[str]:
    """Everything in which a dataset differs from a version of the specification."""
    header, *rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    columns = COLUMNS[version]
    faults = [
        f"{name} is missing"
        for name, column in columns.items()
        if column.is_mandatory and name not in header
    ]
    faults += [f"{name} comes twice" for name in set(header) if header.count(name) > 1]
    custom = [name for name in header if name not in columns]
    faults += [f"{name} is unknown" for name in custom if not re.fullmatch(r"x_[A-Za-z]+", name)]
    if header[len(header) - len(custom) :] != custom:
        faults.append("custom columns do not come last")
    for row in rows:
        if len(row) != len(header):
            faults.append(f"{len(row)} cells")
            continue
        named = dict(zip(header, row, strict=True))
        faults += [
            fault
            for name in header
            if name in columns
            for fault in _cell_faults(name, named[name], columns[name])
        ]
        faults += [] if faults else _row_faults(named)
    return faults


def _cell_faults(name: str, cell: str, column: FocusColumn) -> Iterator[str]:
    if not cell:
        if not column.nulls:
            yield f"{name} is null"
    elif not _PATTERNS[column.kind].fullmatch(cell):
        yield f"{name} is no {column.kind}: {cell!r}"
    elif column.allowed and cell not in column.allowed:
        yield f"{name} may not be {cell!r}"
    elif column.kind == "tags" and any(
        isinstance(value, dict | list) for value in orjson.loads(cell).values()
    ):
        yield f"{name} holds more than texts and numbers"


def _row_faults(row: dict[str, str]) -> Iterator[str]:
    """Rules between columns that hold for usage that the gateway does not invoice."""
    start, end = (datetime.fromisoformat(row[f"ChargePeriod{edge}"]) for edge in ("Start", "End"))
    month = [datetime.fromisoformat(row[f"BillingPeriod{edge}"]) for edge in ("Start", "End")]
    if not month[0] <= start < end <= month[1]:
        yield "its charge period is not within its billing period"
    for column in ("PricingQuantity", "ConsumedQuantity", "SkuId", "SkuPriceId", "PricingCategory"):
        if row["ChargeCategory"] == "Usage" and not row[column]:
            yield f"{column} of usage is null"
    if bool(row["PricingQuantity"]) != bool(row["PricingUnit"]):
        yield "a quantity and its unit are null together"
    if Decimal(row["BilledCost"]) and row["InvoiceIssuerName"] != "thriftgate":
        yield "another issuer's invoice has this cost"
    if bool(row["SubAccountId"]) != bool(row["SubAccountName"]):
        yield "a sub account's id and name are null together"
