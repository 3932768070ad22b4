"""Reads costs over time and in a table by one or two dimensions, summed in the database."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from dashboards.cost_reports import CostSums
from dashboards.reports import ReportPeriod
from dashboards.views.comparisons import (
    Comparison,
    MonthForecasts,
    begun_part,
    compared_bounds,
    compared_edges,
    compared_period,
)
from dashboards.views.costs import (
    CostAmounts,
    CostColumn,
    CostDimension,
    CostSeries,
    CostsView,
    CostTable,
    CostTableRow,
    MonthForecast,
    charted_days,
    cost_amounts,
    share,
    value_label,
)
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rollups.bucket_sums import Sums
from proxy.store.sql.rollups.rollup_statements import COUNTS
from proxy.store.sql.rollups.spend_sums import (
    SpendReader,
    ValueDimension,
    ValueRange,
    costs_by_bucket,
    estimated_cost,
    subtract,
)
from proxy.store.sql.rollups.value_sums import (
    OTHER_VALUES,
    add_up,
    largest_values,
    merge_unshown,
    sums_by,
)
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.savings_sums import first_call_day
from proxy.store.sql.views.series import (
    SeriesQuestion,
    named_filters,
    series_name,
    value_dimension,
    value_names,
)
from slo.usage import Usage

ROWS_SHOWN: Final = 20
COLUMNS_SHOWN: Final = 6
DEAREST_ROWS: Final = ValueRange(count=ROWS_SHOWN)
DEAREST_COLUMNS: Final = ValueRange(count=COLUMNS_SHOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsQuestion(SeriesQuestion[CostDimension]):
    """A question for costs.

    Attributes:
        today: The day of now in the period's time zone.
        now: Seconds since the epoch, up to whose quarter of an hour the earlier period is compared
            where this one goes on; None for whole days.
        compare: The period that this one is compared with.
        across: The dimension of the table's columns; None for none.
        rows: The rows of the table.
        columns: Its columns, the dearest.
    """

    today: date
    now: float | None = None
    compare: Comparison = "previous"
    across: CostDimension | None = None
    rows: ValueRange = DEAREST_ROWS
    columns: ValueRange = DEAREST_COLUMNS

    @property
    def period_to_today(self) -> ReportPeriod:
        """The part of the period that is compared: days to come are beside none."""
        return begun_part(self.period, self.today)

    @property
    def earlier(self) -> ReportPeriod:
        """The earlier period that it is compared with."""
        return compared_period(self.period_to_today, self.compare)


class _RankedRows(NamedTuple):
    """Values of a dimension.

    Attributes:
        sums: Sums of both periods by value; those of values in neither list may be one.
        dearest: Values that the chart tells apart.
        page: Values that the table shows, in order.
        value_count: Values of all pages.
        names: Names of the values that are ids.
    """

    sums: Sums
    dearest: Sequence[str]
    page: Sequence[str]
    value_count: int
    names: Mapping[str, str]


class _RankedColumns(NamedTuple):
    """Values of the second dimension, and sums of bucket 0 by row and column."""

    sums: Sums
    page: Sequence[str]
    value_count: int
    names: Mapping[str, str]


_NO_COLUMNS: Final = _RankedColumns({}, (), 0, {})


def costs_view(readers: Readers, question: CostsQuestion) -> CostsView:
    """Costs of a period beside an earlier one; blocks."""
    earlier = question.earlier
    earlier_edges = compared_edges(question.buckets, question.period_to_today, earlier)
    bounds = compared_bounds(question.period_to_today, earlier, question.now)
    edges = question.buckets.edges
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        reader = SpendReader(connection, bounds, edges, question.only)
        rows = _ranked_rows(connection, reader, question)
        if bounds[0] == bounds[1]:
            rows = rows._replace(sums=_without_earlier(rows.sums))
        columns = _ranked_columns(connection, reader, question, rows.page)
        by_bucket = reader.by_bucket(question.dimension, rows.dearest)
        before = costs_by_bucket(connection, earlier_edges, question.only)
        filter_names = named_filters(connection, question.only)
        estimated = estimated_cost(connection, (edges[0], edges[-1]), question.only)
        first_call = first_call_day(connection, edges[-1], question.period.zone)
    size = len(question.buckets.starts)
    total = [add_up(sums for key, sums in rows.sums.items() if key[0] == n) for n in (0, 1)]
    whole, month = _cost_sums(total[1]), _month(readers, question)
    return CostsView(
        **question.frame,
        series=_series(rows, by_bucket, size),
        table=_table(question, rows, columns),
        filter_names=filter_names,
        total=_amounts(total[1]),
        estimated_nanos=estimated,
        before=_amounts(total[0]),
        before_first=earlier.first,
        before_last=earlier.days[-1].first,
        before_end=bounds[1],
        before_nanos=before[:size],
        unattributed_nanos=total[1].get("unattributed_nanos", 0),
        unattributed_share=share(total[1].get("unattributed_nanos", 0), whole.priced_nanos),
        unpriced_share=share(whole.unpriced, whole.attempts),
        month=month,
        first_call=first_call,
        forecast=charted_days(question.period, question.buckets.unit, month, question.today),
    )


def _ranked_rows(
    connection: Connection, reader: SpendReader, question: CostsQuestion
) -> _RankedRows:
    """The rows of a question; those that receipts alone tell apart are ranked by the database."""
    dimension, some = question.dimension, question.rows
    if dimension.reads_receipts:
        dearest = reader.ranked_values(dimension, ValueRange(count=max(question.top, some.count)))
        is_first = some == ValueRange(count=some.count)
        page = dearest[: some.count] if is_first else reader.ranked_values(dimension, some)
        dearest = dearest[: question.top]
        is_whole = some.first == 0 and len(page) < some.count
        count = len(page) if is_whole else reader.value_count(dimension, some)
        sums = reader.by_value(dimension, {*dearest, *page})
        return _RankedRows(sums, dearest, page, count, {})
    sums = reader.by_value(dimension, None)
    values = {value for _, value in sums}
    names = value_names(connection, question.by, values)
    dearest = [*largest_values(sums, "cost_nanos", question.top, bucket=1)]
    text = some.find.lower()
    matching = [value for value in values if text in value_label(value, names).lower()]
    page = sorted(matching, key=lambda value: _rank(sums, value, some, names))
    return _RankedRows(sums, dearest, page[some.first :][: some.count], len(matching), names)


def _without_earlier(sums: Sums) -> Sums:
    """Sums whose earlier period is unknown."""
    return sums | {(0, value): {"unpriced": 1} for _, value in sums}


def _rank(
    sums: Sums, value: str, some: ValueRange, names: Mapping[str, str]
) -> tuple[int, str, str]:
    """The place of a value in an order."""
    later, earlier = sums.get((1, value), {}), sums.get((0, value), {})
    cost, name = later.get("cost_nanos", 0), value_label(value, names)
    if some.sort == "name":
        return 0, name.lower(), value
    if some.sort == "calls":
        return -later.get("calls", 0), "", value
    return (earlier.get("cost_nanos", 0) if some.sort == "change" else 0) - cost, "", value


def _ranked_columns(
    connection: Connection, reader: SpendReader, question: CostsQuestion, rows: Sequence[str]
) -> _RankedColumns:
    """The columns of a question, the dearest first; none without a second dimension."""
    if question.across is None:
        return _NO_COLUMNS
    some = question.columns
    dimension = value_dimension(question.across, question.providers)
    if dimension.reads_receipts:
        page, count = reader.ranked_values(dimension, some), reader.value_count(dimension, some)
        return _RankedColumns(_pairs(reader, question, rows, dimension, page), page, count, {})
    sums = _pairs(reader, question, rows, dimension, None)
    totals = sums_by(sums, lambda key: (1, key[2]))
    ranked = sorted(
        (value for _, value in totals), key=lambda value: _rank(totals, value, some, {})
    )
    page = ranked[some.first :][: some.count]
    return _RankedColumns(sums, page, len(ranked), value_names(connection, question.across, page))


def _pairs(
    reader: SpendReader,
    question: CostsQuestion,
    rows: Collection[str],
    columns: ValueDimension,
    shown: Collection[str] | None,
) -> Sums:
    return reader.by_pair(question.dimension, columns, rows, shown)


def _table(question: CostsQuestion, rows: _RankedRows, columns: _RankedColumns) -> CostTable:
    """The rows of a page, all others, and the total; the last cell of each is all other columns."""
    totals = sums_by(rows.sums, lambda key: (key[0], ""))
    shown = {value: _row_numbers(rows.sums, columns, value) for value in rows.page}
    total = _RowNumbers(
        totals.get((0, ""), {}),
        totals.get((1, ""), {}),
        [
            add_up(sums for key, sums in columns.sums.items() if key[2] == column)
            for column in columns.page
        ],
    )
    others = total.less(shown.values())
    has_rest = columns.value_count > len(columns.page) or any(
        any(numbers.rest.values()) for numbers in (total, others, *shown.values())
    )
    has_rest = has_rest and question.across is not None

    def row(value: str, numbers: _RowNumbers, name: str = "") -> CostTableRow:
        named = series_name(value, rows.names)
        return _table_row({**named, "name": name or named["name"]}, numbers, has_rest=has_rest)

    return CostTable(
        across=question.across,
        sort=question.rows.sort,
        find=question.rows.find,
        first_row=question.rows.first,
        row_count=rows.value_count,
        first_column=question.columns.first,
        column_count=columns.value_count,
        columns=[
            CostColumn(**series_name(value, columns.names))
            for value in (*columns.page, *([OTHER_VALUES] if has_rest else []))
        ],
        rows=[row(value, numbers) for value, numbers in shown.items()],
        others=row(OTHER_VALUES, others) if others.has_any else None,
        total=row(OTHER_VALUES, total, "Total"),
        grew_most=_grew_most(rows),
    )


def _grew_most(rows: _RankedRows) -> CostTableRow | None:
    """The value whose cost grew most; None where none grew."""
    change = ValueRange(count=1, sort="change")
    ranked = sorted(
        (_rank(rows.sums, value, change, {}), value)
        for value in {value for _, value in rows.sums} - {OTHER_VALUES}
    )
    if not ranked or ranked[0][0][0] >= 0:
        return None
    value = ranked[0][1]
    numbers = _row_numbers(rows.sums, _NO_COLUMNS, value)
    return _table_row(series_name(value, rows.names), numbers, has_rest=False)


class _RowNumbers(NamedTuple):
    """Sums of a row: of the earlier period, of the later, and of this one by column."""

    before: Mapping[str, int]
    sums: Mapping[str, int]
    cells: Sequence[Mapping[str, int]]

    @property
    def rest(self) -> Mapping[str, int]:
        """The part of the later period that is in no cell."""
        cost = {name: self.sums.get(name, 0) for name in ("calls", "unpriced", "cost_nanos")}
        return subtract(cost, add_up(self.cells))

    @property
    def has_any(self) -> bool:
        """True unless all sums are 0."""
        return any(self.before.values()) or any(self.sums.values())

    def less(self, rows: "Collection[_RowNumbers]") -> "_RowNumbers":
        """The part of this row that is in none of those."""
        return _RowNumbers(
            subtract(self.before, add_up(row.before for row in rows)),
            subtract(self.sums, add_up(row.sums for row in rows)),
            [
                subtract(cell, add_up(row.cells[place] for row in rows))
                for place, cell in enumerate(self.cells)
            ],
        )


def _row_numbers(sums: Sums, columns: _RankedColumns, value: str) -> _RowNumbers:
    cells = [columns.sums.get((0, value, column), {}) for column in columns.page]
    return _RowNumbers(sums.get((0, value), {}), sums.get((1, value), {}), cells)


def _table_row(name: Mapping[str, Any], numbers: _RowNumbers, *, has_rest: bool) -> CostTableRow:
    sums, before = _amounts(numbers.sums), _amounts(numbers.before)
    cells = [*numbers.cells, *([numbers.rest] if has_rest else [])]
    is_known = sums.cost_nanos is not None and before.cost_nanos is not None
    return CostTableRow(
        **name,
        sums=sums,
        before=before,
        change_nanos=(sums.cost_nanos or 0) - (before.cost_nanos or 0) if is_known else None,
        cells=[_cost_sums(cell).cost_nanos for cell in cells],
    )


def _series(rows: _RankedRows, by_bucket: Sums, size: int) -> list[CostSeries]:
    """The layers of the chart, the dearest first, and all others last."""
    periods = merge_unshown(rows.sums, rows.dearest)
    values = {value for _, value in (*periods, *by_bucket)}
    dearest = ValueRange(count=0)
    order = sorted(
        values, key=lambda value: (value == OTHER_VALUES, *_rank(periods, value, dearest, {}))
    )
    return [_layer(value, periods, by_bucket, rows.names, size) for value in order]


def _layer(
    value: str, periods: Sums, by_bucket: Sums, names: Mapping[str, str], size: int
) -> CostSeries:
    buckets = [_cost_sums(by_bucket.get((n, value), {})) for n in range(size)]
    return CostSeries(
        **series_name(value, names),
        sums=_amounts(periods.get((1, value), {})),
        before=_amounts(periods.get((0, value), {})),
        cost_nanos=[sums.cost_nanos for sums in buckets],
        calls=[sums.calls for sums in buckets],
    )


def _month(readers: Readers, question: CostsQuestion) -> MonthForecast:
    forecasts = MonthForecasts(question.today, question.period.zone, question.now)
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        return forecasts.of(costs_by_bucket(connection, forecasts.edges, question.only))


def _amounts(numbers: Mapping[str, int]) -> CostAmounts:
    return cost_amounts(_cost_sums(numbers), numbers.get("idle_nanos", 0))


def _cost_sums(numbers: Mapping[str, int]) -> CostSums:
    """Sums by name as a value; those that were not read are 0."""
    sums = defaultdict(int, numbers)
    return CostSums(
        **{name: sums[name] for name in COUNTS}
        | {"attempts": sums["attempts"] - sums["idle_attempts"]},
        answered=sums["ttft_count"],
        priced_list_nanos=sums["list_nanos"],
        priced_nanos=sums["cost_nanos"],
        usage=Usage(**{bucket: sums[bucket] for bucket in schema.BUCKETS}),
    )
