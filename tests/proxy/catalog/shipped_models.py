"""The shipped catalog, and what its routes cost."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route
from proxy.catalog.load import load
from slo.price import BillingTerms, CallCost, PricePeriod, TokenRates, call_cost
from slo.usage import Usage

ROOT = Path(__file__).resolve().parents[3]
BUCKETS = TokenRates.__struct_fields__
TODAY = datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp()
SHIPPED = load((ROOT / "proxy/catalog/models.toml").read_text(), None)


def route(catalog: Catalog, name: str) -> Route:
    return catalog.models[name].routes[0]


def period(sold: Route, now: float = TODAY) -> PricePeriod:
    assert sold.tariff is not None
    prices = sold.tariff.period(now)
    assert prices is not None
    return prices


def dollars(rates: TokenRates) -> dict[str, Decimal]:
    return {
        bucket: Decimal(nanos).scaleb(-9)
        for bucket in BUCKETS
        if (nanos := getattr(rates, bucket)) is not None
    }


def cost_of(sold: Route, usage: Usage, *moment: int, **terms: Any) -> CallCost | None:
    second = datetime(*moment, tzinfo=UTC).timestamp() if moment else TODAY  # type: ignore[misc,arg-type]
    assert sold.tariff is not None
    return call_cost(usage, sold.tariff, second, BillingTerms(**terms))
