"""Savings of a period as a waterfall, and those not taken yet: ``/api/v1/savings``."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Annotated, Final, TypeVar

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.views.savings import MeasuredSaving, SavingsView
from proxy.catalog.catalog import Catalog
from proxy.pages.ledger_views.formats import json_bytes
from proxy.pages.ledger_views.savings import (
    MONTH_DAYS,
    Measurement,
    SavingsQuestion,
    compare_arms,
    measured_saving,
    savings_view,
)
from proxy.pages.resources.queries import LedgerViews, PlaceQuery, json_response
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.store.sql.dashboard_reads import PickledOnce
from proxy.store.store import Store

T = TypeVar("T")

_DAY_S: Final = 86_400.0
#: Seconds for which a measurement against the control arm is shown before it is made again.
_MEASUREMENT_LIFETIME_S: Final = 3_600.0
#: Part of a page's patience that waits for such a measurement.
_MEASUREMENT_SHARE: Final = 0.1
MAX_NEXT: Final = 20


class SavingsQuery(PlaceQuery):
    """A question for savings."""

    next: int = Field(3, ge=0, le=MAX_NEXT, description="Savings not taken yet, the largest.")
    layouts_only: bool = Field(default=False, description="Of those only layouts, no misses.")


class SavingsResource:
    """Savings, as pages and the API read them.

    Args:
        store: The store.
        ask: Asks it, few questions at once.
        catalog: The catalog in force.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        ask: StoreQuestions,
        catalog: Callable[[], Catalog],
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._ask = ask
        self._views = LedgerViews(store, ask)
        self._catalog = catalog
        self._now = now
        self._measured: Measurement | None = None
        self._sent_catalog = PickledOnce(catalog())

    def question(self, viewer: Viewer, query: SavingsQuery) -> SavingsQuestion:
        """The question for savings of the teams that a viewer may see.

        Raises:
            CallerError: They may see no costs, or the question has a fault.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        now, catalog = self._now(), self._catalog()
        if catalog is not self._sent_catalog.value:
            self._sent_catalog = PickledOnce(catalog)
        return SavingsQuestion(
            period=query.period(now),
            only=query.spend_filter(viewer, catalog.providers),
            next=query.next,
            layouts_only=query.layouts_only,
            catalog=self._sent_catalog,
            measurement=self._measured,
            now=now,
        )

    async def read_measured(
        self, asked: SavingsQuestion, read: Callable[[SavingsQuestion], Awaitable[T]]
    ) -> T:
        """Reads savings, and once more if planning was measured anew meanwhile.

        Raises:
            Unready: The database did not answer in time.
        """
        found = await read(asked)
        await self._refresh_measurement()
        if self._measured is asked.measurement:
            return found
        return await read(replace(asked, measurement=self._measured))

    async def savings(
        self, viewer: Viewer, query: SavingsQuery, finish: Callable[[SavingsView], T]
    ) -> T:
        """Savings of a period in the form that is asked for; raises as ``question`` does.

        Raises:
            Unready: The database did not answer in time.
        """

        async def read(asked: SavingsQuestion) -> T:
            return await self._views.read("savings", savings_view, asked, finish)

        return await self.read_measured(self.question(viewer, query), read)

    async def measurement_of(
        self, viewer: Viewer, team: str, team_name: str, feature: str
    ) -> Sequence[MeasuredSaving] | None:
        """The control arm's word on one feature: one saving, or none; None while it is measured.

        Raises:
            CallerError: They may not see the team's costs.
        """
        check_allowed(viewer, Action.SEE_COSTS, team)
        await self._refresh_measurement()
        if self._measured is None:
            return None
        _, every = self._measured.value
        found = (each for each in every if (each.team, each.feature) == (team, feature))
        return [measured_saving(each, team_name) for each in found]

    def router(self) -> APIRouter:
        """The route of the API."""
        routes = APIRouter(tags=["savings"])

        @routes.get("/savings", response_model=SavingsView)
        async def savings(viewer: SignedIn, query: Annotated[SavingsQuery, Query()]) -> Response:
            """Savings of a period as a signed waterfall, and the largest not taken yet."""
            return json_response(await self.savings(viewer, query, json_bytes))

        return routes

    async def _refresh_measurement(self) -> None:
        """Measures again where the last result is old, and waits for a moment."""
        before = self._measured
        if before is None or self._now() - before.value[0] > _MEASUREMENT_LIFETIME_S:
            await self._ask("measured savings", self._measure, _MEASUREMENT_SHARE)

    def _measure(self) -> None:
        """Compares the arms of all features over thirty days; blocks, for long on a large ledger.

        It reads receipts, so it is done seldom; pages show the last result meanwhile.
        """
        now = self._now()
        found = self._store.dashboard.read(compare_arms, now - MONTH_DAYS * _DAY_S)
        self._measured = PickledOnce((now, found))
