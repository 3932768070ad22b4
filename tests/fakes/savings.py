"""Savings of a store, for a catalog whose upstreams are named."""

from dataclasses import replace

from proxy.catalog.catalog import Catalog
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.store.store import Store
from tests.fakes.chaos import two_model_catalog


def catalog_of_provider(provider: str) -> Catalog:
    """A catalog whose upstream ``lab``, which receipts of tests name, is this provider's."""
    catalog = two_model_catalog()
    (one, *_) = catalog.upstreams.values()
    lab = replace(one, name="lab", provider=provider)
    return replace(catalog, upstreams={**catalog.upstreams, "lab": lab})


def figures_of(store: Store, now: float, catalog: Catalog | None = None) -> SavingsFigures:
    """Figures of a store at a moment."""
    prices = catalog or two_model_catalog()
    return SavingsFigures(store, lambda: prices, lambda: now)
