"""Savings of a store, for a catalog whose upstreams are named."""

from dataclasses import replace

import msgspec

from proxy.catalog.catalog import Catalog
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.store.store import Store
from tests.fakes.chaos import two_model_catalog
from tests.fakes.receipts import START


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


def propose_layout(store: Store, feature: str, nanos: int) -> None:
    """Have a layout wait that should save so many nano-dollars per 1,000 calls."""
    move = LayoutMove(
        before=None, after=None, slot=PromptSlot.VARIABLE, label="time", calls=180, saving=nanos
    )
    moves = msgspec.json.encode(Layout(moves=(move,))).decode()
    store.layouts.propose(LayoutScope("team_0", feature, "gpt"), feature, moves, START)
