"""Spend of a period and of an earlier one by one or two dimensions, in buckets of time.

::

    part          read from          what is not shown
    user, tag     receipts           all else that rollups have, calls without a receipt among it
    any other     rollups            the sum of the other values
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    case,
    cast,
    func,
    literal_column,
    select,
)

from dashboards.reports import Part, SpendFilter, reads_receipts
from dashboards.views.costs import RowSort
from proxy.records.receipt import IDLE_TEAM
from proxy.store.sql import schema
from proxy.store.sql.ids import id_floor
from proxy.store.sql.rollups.bucket_sums import Addends, SumQuery, Sums, bucket_case, bucket_sums
from proxy.store.sql.rollups.rollup_statements import SPEND_SUMS, SUMS
from proxy.store.sql.rollups.rollup_tables import rollup_estimated
from proxy.store.sql.rollups.spend_filters import Columns, filter_conditions, part_column
from proxy.store.sql.rollups.value_sums import (
    OTHER_VALUES,
    Read,
    ValueQuery,
    add_up,
    pair_sums,
    value_sums,
)

Bounds = tuple[int, int]

_MICROS: Final = 1_000_000
#: Columns of receipts that sums are made of.
_RECEIPT_COLUMNS: Final = (
    *("final", "outcome", "estimated", "ttft", "team", "feature", "list_nanos", "cost_nanos"),
    *schema.BUCKETS,
)


@dataclass(frozen=True, slots=True)
class ValueDimension:
    """A dimension that sums are told apart by.

    Attributes:
        labels: Values that have another label; values of one label are one.
    """

    part: Part
    labels: Mapping[str, str]

    @property
    def reads_receipts(self) -> bool:
        """True if rollups do not know it."""
        return reads_receipts([self.part])


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Some of the values of a dimension: those from one on in an order.

    Attributes:
        find: A text that their names have, whatever its case; of receipts in SQLite that of ASCII
            letters. "" for all.
        first: Values that are left out.
    """

    count: int
    sort: RowSort = "cost"
    find: str = ""
    first: int = 0


class SpendReader:
    """Reads spend in one transaction, all of whose statements see the same rows.

    Args:
        earlier: Beginning and end of the earlier period, in seconds since the epoch, as all edges:
            whole quarters of an hour.
        edges: Beginnings of the later one's buckets, and the end of the last.
    """

    def __init__(
        self, connection: Connection, earlier: Bounds, edges: Sequence[int], only: SpendFilter
    ) -> None:
        self._connection = connection
        self._earlier, self._edges = earlier, tuple(edges)
        self._period = edges[0], edges[-1]
        self._only = only

    def by_value(self, dimension: ValueDimension, shown: Collection[str] | None) -> Sums:
        """All sums of both periods by value: the earlier is bucket 0, the later bucket 1.

        Args:
            shown: Values kept apart; None for all.
        """
        sums = self._both_periods(self._query(dimension, shown, _addends))
        return self._with_rest(dimension, sums, self.totals)

    def totals(self) -> Sums:
        """All sums of both periods; their value is ""."""
        return self._both_periods(self._query(None, None, _addends))

    def by_bucket(self, dimension: ValueDimension, shown: Collection[str]) -> Sums:
        """Costs and calls of each bucket by value."""

        def read(part: ValueDimension | None) -> Sums:
            query = self._query(part, shown, costs)
            return value_sums(self._reader(query.part), self._edges, query)

        return self._with_rest(dimension, read(dimension), lambda: read(None))

    def by_pair(
        self,
        rows: ValueDimension,
        columns: ValueDimension,
        shown_rows: Collection[str],
        shown_columns: Collection[str] | None,
    ) -> Sums:
        """Costs and calls of the period by two values; the key is bucket 0, row, column.

        It has no rest: what receipts do not tell is in the sums by one value alone.
        """
        row_query = self._query(rows, shown_rows, costs)
        column_query = self._query(columns, shown_columns, costs)
        read = self._reader(rows.part, columns.part)
        return pair_sums(read, self._period, row_query, column_query)

    def ranked_values(self, dimension: ValueDimension, some: ValueRange) -> list[str]:
        """Values of a dimension that receipts have: there may be as many as calls."""
        calls = schema.calls.c
        value = part_column(calls, dimension.part)
        cost: ColumnElement[Any] = func.coalesce(calls.cost_nanos, 0)
        if some.sort == "change":
            cost = case((calls.call_id < id_floor(self._period[0]), -cost), else_=cost)
        amounts: Mapping[RowSort, ColumnElement[Any]] = {
            "cost": func.sum(cost), "change": func.sum(cost), "calls": func.sum(calls.final),
        }  # fmt: skip
        order = (
            [amounts[some.sort].desc(), value]
            if some.sort in amounts
            else [func.lower(value), value]
        )
        query = select(value).where(*self._conditions(dimension, some)).group_by(value)
        query = query.order_by(*order).offset(some.first).limit(some.count)
        return [*self._connection.execute(query).scalars()]

    def value_count(self, dimension: ValueDimension, some: ValueRange) -> int:
        """The number of all values that a range is a part of, which receipts have."""
        value = part_column(schema.calls.c, dimension.part)
        query = select(func.count(value.distinct())).where(*self._conditions(dimension, some))
        return int(self._connection.execute(query).scalar_one())

    def _conditions(self, dimension: ValueDimension, some: ValueRange) -> list[ColumnElement[bool]]:
        """Receipts of the period, for a change of the earlier one too."""
        calls, (begin, end) = schema.calls.c, self._period
        conditions = _calls_between((begin, end), self._only)
        if some.sort == "change":
            conditions = _calls_between((self._earlier[0], end), self._only)
            conditions.append(
                (calls.call_id < id_floor(self._earlier[1])) | (calls.call_id >= id_floor(begin))
            )
        if some.find:
            value = part_column(calls, dimension.part)
            conditions.append(value.icontains(some.find, autoescape=True))
        return conditions

    def _query(
        self, dimension: ValueDimension | None, shown: Collection[str] | None, addends: Addends
    ) -> ValueQuery:
        return ValueQuery(
            part=None if dimension is None else dimension.part,
            labels={} if dimension is None else dimension.labels,
            addends=addends,
            only=self._only,
            shown=shown,
            hour_addends=costs if addends is costs else None,
        )

    def _reader(self, *parts: Part | None) -> Read:
        """Reads rollups; receipts where users or tags are told apart, which rollups do not know."""
        every: tuple[Part | None, ...] = (*parts, *self._only.values)
        needs_receipts = reads_receipts(filter(None, every))
        return partial(_read_receipts if needs_receipts else bucket_sums, self._connection)

    def _both_periods(self, query: ValueQuery) -> Sums:
        """Sums of two periods; time between them, such as most of a month, is not read."""
        read, earlier, later = self._reader(query.part), self._earlier, self._period
        if earlier[1] == later[0]:
            return value_sums(read, (*earlier, later[1]), query)
        return {
            (bucket, value): numbers
            for bucket, period in enumerate((earlier, later))
            for (_, value), numbers in value_sums(read, period, query).items()
        }

    def _with_rest(
        self, dimension: ValueDimension, sums: Sums, read_totals: Callable[[], Sums]
    ) -> Sums:
        """Sums of receipts, and what rollups have beyond them as other values."""
        if not dimension.reads_receipts or reads_receipts(self._only.values):
            return sums
        rest = dict(sums)
        for (bucket, _), total in read_totals().items():
            shown = add_up(
                numbers
                for key, numbers in sums.items()
                if key[0] == bucket and key[1] != OTHER_VALUES
            )
            others = subtract(total, shown)
            if any(others.values()):
                rest[bucket, OTHER_VALUES] = others
        return rest


def subtract(total: Mapping[str, int], part: Mapping[str, int]) -> dict[str, int]:
    """Sums without a part of them."""
    return {name: number - part.get(name, 0) for name, number in total.items()}


def costs_by_bucket(
    connection: Connection, edges: Sequence[int], only: SpendFilter
) -> list[int | None]:
    """Known cost of each bucket in nano-dollars, of all that counts together; None for unknown."""
    query = ValueQuery(part=None, addends=costs, only=only, hour_addends=costs)
    reads = _read_receipts if reads_receipts(only.values) else bucket_sums
    sums = value_sums(partial(reads, connection), edges, query)
    return [known_cost(sums.get((n, ""), {})) for n in range(len(edges) - 1)]


def known_cost(numbers: Mapping[str, int]) -> int | None:
    """The known cost among sums in nano-dollars; None where calls have no known price at all."""
    return numbers.get("cost_nanos") or (None if numbers.get("unpriced") else 0)


def estimated_cost(connection: Connection, period: Bounds, only: SpendFilter) -> int | None:
    """Known cost of attempts whose usage is estimated; None where rollups cannot tell."""
    if reads_receipts(only.values):
        return None
    rows = rollup_estimated.c
    conditions = (rows.quarter.between(period[0], period[1] - 1), *filter_conditions(rows, only))
    query = select(cast(func.coalesce(func.sum(rows.cost_nanos), 0), BigInteger))
    return connection.execute(query.where(*conditions)).scalar()


def costs(rows: Columns | Mapping[str, ColumnElement[Any]]) -> Mapping[str, ColumnElement[Any]]:
    """The numbers that a chart of costs needs, which are read in more buckets than all others."""
    return {name: rows[name] for name in ("calls", "unpriced", "cost_nanos")}


def _addends(rows: Columns) -> Mapping[str, ColumnElement[int]]:
    return {**{name: rows[name] for name in SPEND_SUMS}, **_partial_sums(rows, rows.attempts)}


def _partial_sums(rows: Columns, attempts: ColumnElement[int] | int) -> Mapping[str, Any]:
    """The parts of sums that no call caused, and that name no feature."""
    is_idle = rows.team == IDLE_TEAM
    return {
        "idle_attempts": case((is_idle, attempts), else_=0),
        "idle_nanos": case((is_idle, rows.cost_nanos), else_=0),
        "unattributed_nanos": case((rows.feature == "", rows.cost_nanos), else_=0),
    }


def _read_receipts(connection: Connection, edges: Sequence[int], query: SumQuery) -> Sums:
    """Sums of receipts; ids sort by time, which bounds those that are read."""
    calls = schema.calls.c
    starts = [(edge * _MICROS, bucket) for bucket, edge in enumerate(edges[:-1])]
    rows = (
        select(
            bucket_case(calls.started, starts).label("bucket"),
            *query.places(calls),
            *(calls[name] for name in _RECEIPT_COLUMNS),
        )
        .where(*_calls_between(edges, query.only))
        .subquery("rows")
        .c
    )
    sums: dict[str, ColumnElement[Any]] = {name: literal_column(SUMS[name]) for name in SPEND_SUMS}
    sums |= {name: func.sum(part) for name, part in _partial_sums(rows, 1).items()}
    groups = [
        column for column in rows if column.name == "bucket" or column.name.startswith("place_")
    ]
    summed = select(
        *groups, *(cast(column, BigInteger).label(name) for name, column in sums.items())
    ).group_by(*groups)
    return {
        tuple(row[: len(groups)]): {name: row._mapping[name] or 0 for name in sums}  # noqa: SLF001
        for row in connection.execute(summed)
    }


def _calls_between(edges: Sequence[int], only: SpendFilter) -> list[ColumnElement[bool]]:
    calls = schema.calls.c
    return [
        calls.call_id >= id_floor(edges[0]),
        calls.call_id < id_floor(edges[-1]),
        *filter_conditions(calls, only),
    ]
