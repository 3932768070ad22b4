"""Costs over time and in a table by one or two dimensions: ``/api/v1/costs``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, TypeVar

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from dashboards.access import Action, Viewer
from dashboards.cost_formats import Cell, csv_text, inert_text
from dashboards.cost_reports import usd_decimal
from dashboards.report_periods import BucketUnit
from dashboards.reports import reads_receipts
from dashboards.views.comparisons import Comparison
from dashboards.views.costs import CostsView, CostTableRow, FixedCostDimension, RowSort
from proxy.errors import Unready
from proxy.pages.resources.api import Resource
from proxy.pages.resources.ledger.queries import (
    FilterQuery,
    TagDimension,
    buckets_of,
    json_response,
    local_day,
)
from proxy.pages.store_questions import StoreQuestions, json_bytes, view_itself
from proxy.pages.viewing import Clock, SignedIn, check_allowed, route
from proxy.store.sql.rollups.spend_sums import ValueRange
from proxy.store.sql.views.cost_reports import has_more_receipts
from proxy.store.sql.views.costs import COLUMNS_SHOWN, ROWS_SHOWN, CostsQuestion, costs_view

T = TypeVar("T")

_MAX_SERIES: Final = 50
_MAX_ROWS: Final = 1_000
_MAX_PAGE: Final = 10_000
#: Receipts that are read while a page waits: of a period and of the one it is compared with.
_PAGE_RECEIPTS: Final = 300_000


class CostsQuery(FilterQuery):
    """A question for costs."""

    by: FixedCostDimension | TagDimension = Field(
        "team", description="The dimension of the stack and of the rows; a tag as `tag:customer`."
    )
    across: FixedCostDimension | TagDimension | None = Field(
        None, description="The dimension of the table's columns."
    )
    sort: RowSort = Field("cost", description="The order of the rows; `change` is in dollars.")
    find: str = Field("", max_length=200, description="A text that names of rows have.")
    page: int = Field(1, ge=1, le=_MAX_PAGE, description="The page of the rows.")
    rows: int = Field(ROWS_SHOWN, ge=1, le=_MAX_ROWS, description="Rows of a page.")
    columns_page: int = Field(1, ge=1, le=_MAX_PAGE, description="The page of the columns.")
    columns: int = Field(COLUMNS_SHOWN, ge=1, le=_MAX_SERIES, description="Columns of a page.")
    unit: BucketUnit | None = Field(None, description="Length of a bucket; one that suits.")
    compare: Comparison = Field(
        "previous", description="The period before, or the same days a month ago."
    )
    top: int = Field(8, ge=1, le=_MAX_SERIES, description="Values kept apart, the dearest.")

    @property
    def row_range(self) -> ValueRange:
        """The rows of its page."""
        first = (self.page - 1) * self.rows
        return ValueRange(count=self.rows, sort=self.sort, find=self.find, first=first)

    @property
    def column_range(self) -> ValueRange:
        """The columns of its page."""
        first = (self.columns_page - 1) * self.columns
        return ValueRange(count=self.columns, first=first)

    @property
    def reads_receipts(self) -> bool:
        """True if users or tags are told apart: each call is read, however many there are."""
        has_filter = self.user is not None or self.tag is not None
        return has_filter or reads_receipts(filter(None, (self.by, self.across)))


@dataclass(eq=False)
class Costs(Resource):
    """Costs, as pages and the API read them.

    Args:
        providers: Returns the provider of each upstream.
    """

    tag = "costs"

    _ask: StoreQuestions
    _providers: Callable[[], Mapping[str, str]]
    _now: Clock

    def question(self, viewer: Viewer, query: CostsQuery) -> CostsQuestion:
        """The question for costs of the teams that a viewer may see."""
        check_allowed(viewer, Action.SEE_COSTS)
        now, providers = self._now(), self._providers()
        period = query.period(now)
        return CostsQuestion(
            by=query.by,
            top=query.top,
            period=period,
            buckets=buckets_of(period, query.unit),
            only=query.spend_filter(viewer, providers),
            providers=providers,
            today=local_day(now, period.zone),
            now=now,
            compare=query.compare,
            across=None if query.across == query.by else query.across,
            rows=query.row_range,
            columns=query.column_range,
        )

    @route("GET", "/costs", name="costs", response_model=CostsView)
    async def json(self, viewer: SignedIn, query: Annotated[CostsQuery, Query()]) -> Response:
        """Costs over time, stacked by one dimension, beside the period before."""
        return json_response(await self.costs(viewer, query, json_bytes))

    @route("GET", "/costs/table", name="costs_table", response_class=Response)
    async def table(self, viewer: SignedIn, query: Annotated[CostsQuery, Query()]) -> Response:
        """The table of costs as CSV, with every digit; all else and the total are rows of it."""
        text = await self.costs(viewer, query, cost_table_csv)
        headers = {"content-disposition": 'attachment; filename="costs.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    async def costs(self, viewer: Viewer, query: CostsQuery, finish: Callable[[CostsView], T]) -> T:
        """Costs of a period in the form that is asked for."""
        question = self.question(viewer, query)
        if not (query.reads_receipts and await self._is_long(question)):
            try:
                return await self._ask.view("costs", costs_view, question, finish)
            except Unready:
                if not query.reads_receipts:
                    raise
        raise Unready(
            "Users and tags are told apart by reading each call of the period, which takes too long"
            f" here: /api/v1/reports/cost?by={query.by} is made in the background, and"
            f" `thriftgate report cost --by {query.by}` takes as long as it needs.",
            code="store_busy",
            retry_after=5.0,
        )

    async def _is_long(self, question: CostsQuestion) -> bool:
        """True if both periods have more receipts than are read while a page waits."""
        count = partial(has_more_receipts, count=_PAGE_RECEIPTS)
        periods = question.earlier, question.period
        return await self._ask.view("receipts of costs", count, periods, view_itself)


def cost_table_csv(view: CostsView) -> str:
    """The table of costs as CSV: its rows, all others, and the total; an unknown cost is empty.

    The columns of the second dimension follow the figures, under their names.
    """
    table = view.table
    columns = [f"{column.name} cost_usd" for column in table.columns]
    rows = [*table.rows, *([] if table.others is None else [table.others]), table.total]
    figures = ("cost_usd", "previous_cost_usd", "change_usd", "calls", "errors")
    return csv_text(
        [inert_text(name) for name in (view.by, *figures, *columns)], map(_table_cells, rows)
    )


def _table_cells(row: CostTableRow) -> list[Cell]:
    costs = row.sums.cost_nanos, row.before.cost_nanos, row.change_nanos
    return [
        row.name,
        *map(usd_decimal, costs),
        row.sums.calls,
        row.sums.errors,
        *map(usd_decimal, row.cells),
    ]
