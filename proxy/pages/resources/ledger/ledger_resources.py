"""Resources that read the ledger: spending, savings, and the calls themselves.

::

    page ──┐
           ├─ resource ── few questions at once, 3 s each ── rollups, summed in the database
    API  ──┘  (the viewer's teams are part of every question)

A question that a page asks costs the database about as much however many calls there are, for it
reads rollups; only a split by end user reads receipts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from fastapi import APIRouter

from proxy.calls.ports import BackgroundTaskGroup
from proxy.catalog.catalog import Catalog
from proxy.pages.resources.ledger.cache_health import CacheHealth
from proxy.pages.resources.ledger.calls import Calls
from proxy.pages.resources.ledger.costs import Costs
from proxy.pages.resources.ledger.fast_path import FastPathResource
from proxy.pages.resources.ledger.latency import LatencyResource
from proxy.pages.resources.ledger.reports import CostReportsResource
from proxy.pages.resources.ledger.savings import SavingsResource
from proxy.pages.store_questions import StoreQuestions
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.store.store import Store
from slo.objectives.objective import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerResources:
    """The resources that read the ledger: pages call them, the API answers with the same values."""

    ask: StoreQuestions
    costs: Costs
    reports: CostReportsResource
    savings: SavingsResource
    cache: CacheHealth
    latency: LatencyResource
    calls: Calls
    fast_path: FastPathResource

    @classmethod
    def of(
        cls,
        store: Store,
        work: tuple[StoreQuestions, BackgroundTaskGroup],
        catalog: Callable[[], Catalog],
        objectives: Callable[[], Sequence[Objective]],
        now: Callable[[], float],
    ) -> Self:
        """The resources of a gateway.

        Args:
            work: Asks the store, few questions at once; and background tasks that shutdown waits
                for.
        """

        def providers() -> dict[str, str]:
            return catalog().providers

        (ask, _), figures = work, SavingsFigures(store, catalog, now)
        return cls(
            ask=ask,
            costs=Costs(ask, providers, now),
            reports=CostReportsResource(store, work, figures, now),
            savings=SavingsResource(ask, figures, now),
            cache=CacheHealth(store, ask, catalog, objectives, now),
            latency=LatencyResource(ask, providers, now),
            calls=Calls(store, ask, catalog, objectives, now),
            fast_path=FastPathResource(ask, now),
        )

    def routers(self) -> list[APIRouter]:
        """Their routes below ``/api/v1``."""
        every = (
            self.costs, self.reports, self.savings, self.cache, self.latency, self.calls,
            self.fast_path,
        )  # fmt: skip
        return [resource.router() for resource in every]
