"""``/api/v1/reports/cost``: cost reports by any dimensions, as JSON, CSV or a FOCUS dataset."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.cost_formats import cost_csv, cost_document
from dashboards.cost_reports import DIMENSIONS, CostReport, Dimension, cost_report
from dashboards.focus import FOCUS_DIMENSIONS, FocusVersion, focus_export
from dashboards.reports import ReportPeriod
from proxy.errors import CallerError
from proxy.pages.resources.queries import FilterQuery, store_answer
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.store.store import Store

#: Seconds that a report has; it is asked for by hand, one at a time.
REPORT_TIMEOUT_S: Final = 60.0
#: Part of that which waits until control arms are compared.
_MEASUREMENT_SHARE: Final = 0.05
_MEDIA_TYPES: Final = {"csv": "text/csv", "focus": "text/csv", "json": "application/json"}


class ReportFormat(StrEnum):
    """The format of a report."""

    JSON = "json"
    CSV = "csv"
    FOCUS = "focus"


class ReportQuery(FilterQuery):
    """A question for a cost report; dimensions stand between commas."""

    by: str = Field(
        "team", max_length=200, description=f"Dimensions between commas: {', '.join(DIMENSIONS)}."
    )
    format: ReportFormat = ReportFormat.JSON
    focus_version: FocusVersion = FocusVersion.V1_2

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions that are asked for, each once; those of FOCUS are its own.

        Raises:
            CallerError: There is no such dimension.
        """
        if self.format is ReportFormat.FOCUS:
            return FOCUS_DIMENSIONS
        known: dict[str, Dimension] = {each: each for each in DIMENSIONS}
        asked = [each.strip() for each in self.by.split(",") if each.strip()] or ["team"]
        unknown = [each for each in asked if each not in known]
        if unknown:
            raise CallerError(
                f"by={unknown[0]}: there are {', '.join(DIMENSIONS)}.",
                code="unknown_dimension",
                param="by",
            )
        return tuple(dict.fromkeys(known[each] for each in asked))


class CostReportsResource:
    """Cost reports, exact to the nano-dollar.

    Args:
        store: The store.
        figures: Costs and savings in the store.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        figures: SavingsFigures,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._figures = figures
        self._ask = StoreQuestions(store, REPORT_TIMEOUT_S)
        self._now = now

    async def report(
        self, viewer: Viewer, query: ReportQuery
    ) -> tuple[CostReport, Mapping[str, str]]:
        """A report of the teams that a viewer may see, and the names of teams by id.

        Raises:
            CallerError: They may see no costs, or the question has a fault.
            Unready: The database did not answer in time.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        period, by = query.period(self._now()), query.dimensions
        if query.format is ReportFormat.JSON:
            # It reads receipts: the report waits a moment for it, and has no headline without.
            await self._ask("measured savings", self._figures.measure, _MEASUREMENT_SHARE)
        return store_answer(
            await self._ask("report", lambda: self._read(viewer, query, period, by))
        )

    async def file(self, viewer: Viewer, query: ReportQuery) -> tuple[str, str]:
        """A report as a text, and a name for its file.

        Raises:
            CallerError: As ``report``.
            Unready: As ``report``.
        """
        found, names = await self.report(viewer, query)
        text = await run_in_threadpool(_text, found, names, query)
        ending = "json" if query.format is ReportFormat.JSON else "csv"
        return (
            text,
            f"thriftgate-cost-{found.period.first}-to-{found.period.days[-1].first}.{ending}",
        )

    def router(self) -> APIRouter:
        """The route of the API."""
        routes = APIRouter(tags=["reports"])

        @routes.get("/reports/cost", response_class=Response)
        async def cost(viewer: SignedIn, query: Annotated[ReportQuery, Query()]) -> Response:
            """A cost report as a file: rows that add up to the ledger exactly."""
            text, name = await self.file(viewer, query)
            return Response(
                text.encode(),
                media_type=_MEDIA_TYPES[query.format],
                headers={"content-disposition": f'attachment; filename="{name}"'},
            )

        return routes

    def _read(
        self, viewer: Viewer, query: ReportQuery, period: ReportPeriod, by: tuple[Dimension, ...]
    ) -> tuple[CostReport, Mapping[str, str]]:
        """Reads and adds up; blocks."""
        providers = self._figures.providers
        only = query.spend_filter(viewer, providers)
        names = {each.id: each.name for each in self._store.teams.all()}
        report = cost_report(self._store.reports, period, by, providers, only)
        if query.format is ReportFormat.JSON:  # files of rows alone have no room for a headline
            savings = self._figures.measured_headline(period, only)
            report = replace(report, savings=savings)
        return report, names


def _text(report: CostReport, names: Mapping[str, str], query: ReportQuery) -> str:
    """A report in the format that was asked for."""
    if query.format is ReportFormat.CSV:
        return cost_csv(report, names)
    if query.format is ReportFormat.FOCUS:
        return focus_export(report, names, query.focus_version).text
    return msgspec.json.encode(cost_document(report, names)).decode() + "\n"
