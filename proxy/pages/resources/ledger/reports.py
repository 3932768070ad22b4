"""``/api/v1/reports/cost``: cost reports by any dimensions, as JSON, CSV or a FOCUS dataset."""

import re
from enum import StrEnum
from typing import Annotated, Final
from unicodedata import combining, normalize

import msgspec
from fastapi import Query
from pydantic import BeforeValidator, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.cost_reports import DIMENSION_NAMES, Dimension, next_month, read_dimensions
from dashboards.focus import FocusVersion, focus_dimensions, focus_export
from dashboards.report_summary.files import cost_csv, cost_document
from dashboards.report_summary.read_report import ReadReport
from dashboards.reports import ReportPeriod, SpendFilter, is_tag, reads_receipts
from proxy.calls.ports import BackgroundTaskGroup
from proxy.errors import CallerError, Unready
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import FilterQuery
from proxy.pages.store_questions import PART_TIMEOUT_S, StoreQuestions
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.services.reports.background_reports import (
    BackgroundReports,
    PendingReport,
    ReportOrder,
)
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.store.errors import StoreError
from proxy.store.sql.views.cost_reports import (
    ReportQuestion,
    has_more_receipts,
    pack_cost_report,
    read_cost_report,
    unpack_cost_report,
)
from proxy.store.store import Store

#: Seconds that a report has in the background.
REPORT_DEADLINE_S: Final = 600.0
#: Seconds that a request for its file waits for it.
_FILE_WAIT_S: Final = 55.0
#: Part of a page's patience that waits until control arms are compared.
_MEASUREMENT_SHARE: Final = 0.5
#: Receipts that are read within a page's patience; it is some 100,000 a second.
_QUICK_RECEIPTS: Final = 100_000
#: Bytes of a report that is kept, as it is packed: some 100,000 rows.
_MAX_REPORT_BYTES: Final = 4_194_304
#: Characters of a team's name in the name of a file.
_MAX_TEAM_CHARS: Final = 40
_MEDIA_TYPES: Final = {"csv": "text/csv", "focus": "text/csv", "json": "application/json"}


class ReportFormat(StrEnum):
    """The format of a report."""

    JSON = "json"
    CSV = "csv"
    FOCUS = "focus"


class ReportQuery(FilterQuery):
    """A question for a cost report."""

    by: Annotated[
        list[Annotated[str, Field(max_length=200)]],
        Field(max_length=20),
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ] = Field(
        ["team"],
        description=f"Dimensions, repeated or between commas: {DIMENSION_NAMES}.",
    )
    format: ReportFormat = ReportFormat.JSON
    focus_version: FocusVersion = FocusVersion.V1_2

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions that are asked for, each once; of FOCUS its own, and tags.

        Raises:
            CallerError: There is no such dimension.
        """
        names = [name.strip() for name in ",".join(self.by).split(",")]
        is_focus = self.format is ReportFormat.FOCUS
        try:
            dimensions = read_dimensions(filter(is_tag, names) if is_focus else names)
        except ValueError as error:
            raise CallerError(f"by={error}", code="unknown_dimension", param="by") from None
        return focus_dimensions(dimensions) if is_focus else dimensions


class CostReportsResource(Resource):
    """Cost reports, exact to the nano-dollar.

    One that takes longer than a page waits goes on in the background, in a process of its own at
    the lowest priority. Whoever asks for the same report of the same teams gets it, once it is
    made, and what they may see is checked each time.

    Args:
        work: Asks it, few questions at once; and background tasks that shutdown waits for.
        quick_receipts: Receipts that a report may read while a page waits.
    """

    tag = "reports"

    def __init__(
        self,
        store: Store,
        work: tuple[StoreQuestions, BackgroundTaskGroup],
        figures: SavingsFigures,
        now: Clock,
        *,
        quick_receipts: int = _QUICK_RECEIPTS,
    ) -> None:
        self._store = store
        self._ask, tasks = work
        self._figures = figures
        self._now = now
        self._quick_receipts = quick_receipts
        self._background = BackgroundReports(tasks)

    async def report(
        self, viewer: Viewer, query: ReportQuery, wait_s: float = PART_TIMEOUT_S
    ) -> ReadReport | PendingReport:
        """A report of the teams that a viewer may see; pending where it is not there in time.

        Raises:
            CallerError: The question has a fault, or too many rows.
            Unready: The database did not answer, or not within the time that a report has.
        """
        check_allowed(viewer, Action.SEE_COSTS)
        period, by = query.period(self._now()), query.dimensions
        only = query.spend_filter(viewer, self._figures.providers)
        values = frozenset(only.values.items())
        order = ReportOrder(
            key=(period, by, only.teams, values),
            owner=only.teams,
            make=lambda: self._make(self._question(period, by, only)),
        )
        if order.key not in self._background:
            await self._ask("measured savings", self._figures.measure, _MEASUREMENT_SHARE)
            if not await self._is_long(query, period):
                report = await self._read_quickly(self._question(period, by, only))
                if report is not None:
                    return report
        packed = await self._background.take(order, wait_s)
        if isinstance(packed, PendingReport):
            return packed
        return await run_in_threadpool(unpack_cost_report, packed)

    @route("GET", "/reports/cost", name="cost", response_class=Response)
    async def file(self, viewer: SignedIn, query: Annotated[ReportQuery, Query()]) -> Response:
        """A cost report as a file: rows that add up to the ledger exactly.

        One that reads very many receipts is made in the background: the answer is then 503
        with the code ``report_pending``, until the same request finds it made.
        """
        answer = await self.report(viewer, query, _FILE_WAIT_S)
        if isinstance(answer, PendingReport):
            raise Unready(
                "The report waits until others are made; ask for it again."
                if answer.is_waiting
                else f"The report is being made, {answer.seconds:.0f} s so far; ask for it again.",
                code="report_pending",
                retry_after=5.0,
            )
        text = await run_in_threadpool(_text, answer, query)
        name = _file_name(answer, query)
        return Response(
            text.encode(),
            media_type=_MEDIA_TYPES[query.format],
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    def stop(self) -> None:
        """Cancel reports that are being made in the background."""
        self._background.stop()

    def _question(
        self, period: ReportPeriod, by: tuple[Dimension, ...], only: SpendFilter
    ) -> ReportQuestion:
        return ReportQuestion(
            scope=self._figures.scope(period, only),
            by=by,
            providers=self._figures.providers,
            now=self._now(),
        )

    async def _is_long(self, query: ReportQuery, period: ReportPeriod) -> bool:
        """True if the report reads more receipts than a page waits for."""
        filters = query.user is not None or query.tag is not None
        if not filters and not reads_receipts(query.dimensions):
            return False

        def count() -> bool:
            return self._store.dashboard.read(has_more_receipts, (period,), self._quick_receipts)

        return await self._ask("receipts of a report", count) is not False

    async def _read_quickly(self, question: ReportQuestion) -> ReadReport | None:
        """The report; None where it takes longer than a page waits."""
        try:
            return await self._ask.answer(
                "report", lambda: self._store.dashboard.read(read_cost_report, question)
            )
        except Unready as error:
            if isinstance(error.__cause__, TimeoutError):
                return None
            raise

    async def _make(self, question: ReportQuestion) -> bytes:
        """A report in the background.

        Raises:
            CallerError: It has too many rows to be kept.
            Unready: It took too long, or the database does not answer.
        """
        try:
            packed = await self._store.read_apart(REPORT_DEADLINE_S, pack_cost_report, question)
        except TimeoutError as error:
            raise Unready(
                f"The report was stopped: it took more than {REPORT_DEADLINE_S / 60:.0f} minutes."
                " Ask for fewer days; `thriftgate report cost` takes as long as it needs.",
                code="report_stopped",
            ) from error
        except (StoreError, OSError) as error:
            raise Unready(
                "The report could not be made: the database did not answer. Ask for it again.",
                code="database_unavailable",
                retry_after=5.0,
            ) from error
        if len(packed) > _MAX_REPORT_BYTES:
            raise CallerError(
                "The report has too many rows to be kept, some hundred thousand. Ask for fewer"
                " days or dimensions; `thriftgate report cost` has no such limit.",
                code="report_too_large",
                param="by",
            )
        return packed


def _file_name(read: ReadReport, query: ReportQuery) -> str:
    """The name of a report's file: its format, its only team, and its month or days."""
    is_focus, period = query.format is ReportFormat.FOCUS, read.report.period
    kind = f"focus-{query.focus_version}" if is_focus else "costs"
    team = query.team or ""
    words = _team_words(team, read.names[team]) if team in read.names else ""
    is_month = period.first.day == 1 and period.end == next_month(period.first)
    days = f"{period.first:%Y-%m}" if is_month else f"{period.first}-to-{period.days[-1].first}"
    ending = "json" if query.format is ReportFormat.JSON else "csv"
    return f"{'-'.join(filter(None, ('thriftgate', kind, words, days)))}.{ending}"


def _team_words(team: str, name: str) -> str:
    """A team's name in letters for a file's name; its id where others than Latin ones are lost."""
    decomposed = normalize("NFKD", name.lower())
    letters = "".join(letter for letter in decomposed if not combining(letter))
    if any(letter.isalnum() and not letter.isascii() for letter in letters):
        letters = team
    return re.sub(r"[^a-z0-9]+", "-", letters)[:_MAX_TEAM_CHARS].strip("-")


def _text(read: ReadReport, query: ReportQuery) -> str:
    """A report in the format that was asked for."""
    if query.format is ReportFormat.CSV:
        return cost_csv(read)
    if query.format is ReportFormat.FOCUS:
        return focus_export(read.report, read.names, query.focus_version).text
    return msgspec.json.encode(cost_document(read)).decode() + "\n"
