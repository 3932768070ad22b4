"""The shipped catalog: every row against the reference prices, where these are here."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from proxy.catalog.catalog import Catalog
from tests.proxy.catalog.shipped_models import ROOT, SHIPPED, dollars, period, route

REFERENCE = ROOT / "../shared/reference/prices.json"


@pytest.fixture(name="catalog", scope="module")
def _catalog() -> Catalog:
    return SHIPPED


def reference() -> list[dict[str, Any]]:
    if not REFERENCE.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(REFERENCE.read_text(), parse_float=Decimal)["models"]
    return rows


ROWS = reference()
#: Models whose prices come from the list that the reference was made of, and not from itself.
BEYOND = {
    *("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"),
    "gpt-4o-2024-05-13",
}
#: Days of changes that the list does not have in its own form: Mistral's from its pricing page, and
#: the end of an introductory price.
DATED_BEYOND = {
    "mistral-large-4": [date(2026, 10, 20), date(2026, 10, 29)],
    "gpt-6.2-sol": [date(2027, 3, 1)],
}
#: Models whose batches are half price by their provider's page alone.
BATCHED_BEYOND = {"mistral-large-4"}
needs_reference = pytest.mark.skipif(not ROWS, reason="the reference price list is not here")


def wanted_rates(row: dict[str, Any]) -> dict[str, Decimal]:
    writes = {f"write_{ttl}": price for ttl, price in (row.get("cache_write") or {}).items()}
    named = {"input": row["input"], "cache_read": row["cached_input"], "output": row["output"]}
    return {key: Decimal(price) for key, price in {**named, **writes}.items() if price is not None}


@needs_reference
def test_the_reference_and_the_catalog_have_the_same_models(catalog: Catalog) -> None:
    assert set(catalog.models) - BEYOND == {row["id"] for row in ROWS}


@needs_reference
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_row_says_what_the_reference_says(catalog: Catalog, row: dict[str, Any]) -> None:
    sold = route(catalog, row["id"])
    prices = period(sold)
    assert sold.upstream.name == row["provider"]
    assert dollars(prices.sheets[""].rates) == wanted_rates(row)
    assert (sold.window, sold.max_output) == (row["context_window_input"], row["max_output"])
    assert sold.min_cache_tokens == row["min_cache_tokens"]
    retires = row.get("deprecation_date")
    model = catalog.models[row["id"]]
    assert model.retires == (date.fromisoformat(retires) if retires else None)


@needs_reference
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_long_calls_cost_what_the_reference_says(catalog: Catalog, row: dict[str, Any]) -> None:
    steps = period(route(catalog, row["id"])).sheets[""].steps
    # xAI counts from 200,000 on, which the reference's own field cannot say.
    first = 1 if row["provider"] == "xai" else 0
    assert [(step.above + first, dollars(step.rates)) for step in steps] == [
        (tier["above_prompt_tokens"], wanted_rates(tier)) for tier in row.get("tiers") or []
    ]


@needs_reference
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_service_tiers_cost_what_the_reference_says(catalog: Catalog, row: dict[str, Any]) -> None:
    sheets = period(route(catalog, row["id"])).sheets
    listed = {
        {"batches": "batch"}.get(tier, tier): wanted_rates(rates)
        for tier, rates in (row.get("service_tiers") or {}).items()
    }
    # Anthropic halves every price in a batch, also of models whose row lists none.
    assert set(sheets) - {"", "batch"} == set(listed) - {"batch"}
    is_halved = row["provider"] == "anthropic" or row["id"] in BATCHED_BEYOND
    assert ("batch" in sheets) == ("batch" in listed or is_halved)
    for tier, price in listed.items():
        rates = dollars(sheets[tier].rates)
        more = set(rates) - set(price)
        assert {key: rates[key] for key in price} == price
        # What the row leaves out follows from the factor that holds for all the rest.
        standard = dollars(sheets[""].rates)
        factors = {price[key] / standard[key] for key in price}
        assert more <= {"write_12h", "write_1h"}
        assert all({rates[key] / standard[key]} == factors for key in more)


@needs_reference
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_multipliers_are_what_the_reference_says(catalog: Catalog, row: dict[str, Any]) -> None:
    prices = period(route(catalog, row["id"]))
    uplift = row.get("regional_uplift") or {}
    multipliers = {key.rsplit("_", 1)[1]: Decimal(value) for key, value in uplift.items()}
    factors = row.get("multipliers") or {}
    # The rule says 1.1 in the US from 4.6 on; the rows of 5.2 are silent.
    if "us" in factors or row["id"] in {"claude-fable-5-2", "claude-mythos-5-2"}:
        multipliers["us"] = Decimal("1.1")
    assert prices.regions == multipliers
    assert prices.fast == (Decimal(factors["fast"]) if "fast" in factors else None)


@needs_reference
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_dated_changes_are_those_of_the_reference(catalog: Catalog, row: dict[str, Any]) -> None:
    tariff = route(catalog, row["id"]).tariff
    assert tariff is not None
    assert [datetime.fromtimestamp(period.since, UTC).date() for period in tariff.periods[1:]] == [
        *(date.fromisoformat(change["effective"]) for change in row.get("price_changes") or []),
        *DATED_BEYOND.get(row["id"], []),
    ]


@needs_reference
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_off_peak_hours_are_those_of_the_reference(catalog: Catalog, row: dict[str, Any]) -> None:
    off_peak = period(route(catalog, row["id"])).off_peak
    assert (off_peak is None) == ("off_peak" not in row)
    if off_peak is None:
        return
    for key in ("input", "cached_input", "output"):
        assert row["off_peak"][key] == row[key] * Decimal(off_peak.factor.numerator) / Decimal(
            off_peak.factor.denominator
        )
    monday = datetime(2026, 11, 16, tzinfo=UTC).timestamp()
    for hour in range(7 * 24):
        weekday, time = hour // 24 + 1, f"{hour % 24:02}:00"
        is_off = any(
            weekday in window["weekdays"] and begins <= time < (ends if ends != "00:00" else "24")
            for window in row["off_peak"]["windows_utc"]
            for begins, _, ends in (span.partition("-") for span in spans(window["hours_utc"]))
        )
        assert (off_peak.at(monday + hour * 3600) == off_peak.factor) == is_off


def spans(hours: str | list[str]) -> list[str]:
    return [hours] if isinstance(hours, str) else hours
