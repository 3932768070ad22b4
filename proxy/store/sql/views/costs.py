"""Reads costs over time by one dimension, summed in the database, as a view."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
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

from dashboards.cost_reports import CostSums
from dashboards.report_periods import time_buckets
from dashboards.reports import Part, ReportPeriod, SpendFilter, reads_receipts
from dashboards.views.comparisons import Comparison, compared_edges, compared_period
from dashboards.views.costs import (
    FORECAST_DAYS,
    CostAmounts,
    CostDimension,
    CostSeries,
    CostsView,
    MonthForecast,
    cost_amounts,
    month_forecast,
    share,
)
from proxy.records.receipt import IDLE_TEAM
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.rollups.bucket_sums import SumQuery, Sums, bucket_case, bucket_sums
from proxy.store.sql.rollups.rollup_statements import COUNTS, SPEND_SUMS, SUMS
from proxy.store.sql.rollups.spend_filters import Columns, filter_conditions
from proxy.store.sql.rollups.value_sums import (
    OTHER_VALUES,
    Read,
    ValueQuery,
    add_up,
    largest_values,
    merge_unshown,
    value_sums,
)
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.series import SeriesQuestion, series_name
from slo.usage import Usage

_MICROS: Final = 1_000_000
#: Columns of receipts that sums are made of.
_RECEIPT_COLUMNS: Final = (
    *("final", "outcome", "estimated", "team", "feature", "list_nanos", "cost_nanos"),
    *schema.BUCKETS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsQuestion(SeriesQuestion[CostDimension]):
    """A question for costs.

    Attributes:
        today: The day of now in the period's time zone.
        compare: The period that this one is compared with.
    """

    today: date
    compare: Comparison = "previous"


def costs_view(readers: Readers, question: CostsQuestion) -> CostsView:
    """Costs of a period beside an earlier one; blocks."""
    earlier = compared_period(question.period, question.compare)
    earlier_edges = compared_edges(question.buckets, question.period, earlier)
    query = ValueQuery(
        part=question.part, labels=question.labels, addends=_costs, only=question.only
    )
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        edges = question.buckets.edges
        periods, by_bucket = spend_by_value(connection, earlier.bounds, edges, query, question.top)
        before = costs_by_bucket(connection, earlier_edges, question.only)
    values = {value for _, value in (*periods, *by_bucket)}
    total = [add_up(sums for key, sums in periods.items() if key[0] == n) for n in (0, 1)]
    whole = _cost_sums(total[1])
    names = _names(readers, question.by, values)
    size = len(question.buckets.starts)
    return CostsView(
        **question.frame,
        series=[
            _series(value, periods, by_bucket, names, size) for value in _order(periods, values)
        ],
        total=_amounts(total[1]),
        before=_amounts(total[0]),
        before_first=earlier.first,
        before_last=earlier.days[-1].first,
        before_nanos=before[:size],
        unattributed_nanos=total[1].get("unattributed_nanos", 0),
        unattributed_share=share(total[1].get("unattributed_nanos", 0), whole.priced_nanos),
        unpriced_share=share(whole.unpriced, whole.attempts),
        month=_month(readers, question),
    )


def spend_by_value(
    connection: Connection,
    earlier: tuple[int, int],
    edges: Sequence[int],
    query: ValueQuery,
    limit: int,
) -> tuple[Sums, Sums]:
    """Spend of two periods by value, and the costs of the later one by bucket.

    It is summed from rollups, and from receipts where users are told apart.

    Args:
        connection: Of one transaction, all of whose statements see the same rows.
        earlier: Beginning and end of the earlier period, in seconds since the epoch, as all edges:
            whole quarters of an hour.
        edges: Beginnings of the later one's buckets, and the end of the last.
        limit: Values kept apart, those that cost most in the period.

    Returns:
        Sums of the earlier period, bucket 0, and of the later, bucket 1; its costs and calls.
    """
    read, period = _reader(connection, query), (edges[0], edges[-1])
    whole = replace(query, addends=_addends)
    if query.part == "user":  # of many users, few come back
        shown = _dearest_users(connection, period, query.only, limit)
        sums = _period_sums(read, earlier, period, replace(whole, shown=shown))
    else:
        every = _period_sums(read, earlier, period, whole)
        shown = largest_values(every, "cost_nanos", limit, bucket=1)
        sums = merge_unshown(every, shown)
    return sums, value_sums(read, edges, replace(query, shown=shown, hour_addends=_costs))


def _period_sums(
    read: Read, earlier: tuple[int, int], later: tuple[int, int], query: ValueQuery
) -> Sums:
    """Sums of two periods, buckets 0 and 1, between which time may lie that counts nowhere."""
    if earlier[1] == later[0]:
        return value_sums(read, (*earlier, later[1]), query)
    places = {0: 0, 2: 1}
    sums = value_sums(read, (*earlier, *later), query)
    return {
        (places[bucket], value): numbers
        for (bucket, value), numbers in sums.items()
        if bucket in places
    }


def costs_by_bucket(connection: Connection, edges: Sequence[int], only: SpendFilter) -> list[int]:
    """Known cost of each bucket in nano-dollars, of all that counts together."""
    query = ValueQuery(part=None, addends=_costs, only=only, hour_addends=_costs)
    sums = value_sums(_reader(connection, query), edges, query)
    return [sums.get((n, ""), {}).get("cost_nanos", 0) for n in range(len(edges) - 1)]


def _month(readers: Readers, question: CostsQuestion) -> MonthForecast:
    today, zone = question.today, question.period.zone
    tomorrow = today + timedelta(days=1)
    whole = ReportPeriod(first=today.replace(day=1), end=tomorrow, zone=zone)
    month, before = whole.bounds, compared_period(whole, "month")
    begun, end = ReportPeriod(first=today, end=tomorrow, zone=zone).bounds
    # Days of UTC are what rollups hold; a mean of four needs no other.
    past = ReportPeriod(first=today - timedelta(days=FORECAST_DAYS), end=today, zone="UTC")
    edges = sorted({month[0], begun, end, *before.bounds, *time_buckets(past, "day").edges})
    with read_transaction(readers.engine, is_snapshot=True) as connection:
        costs = list(zip(edges, costs_by_bucket(connection, edges, question.only), strict=False))

    def nanos_between(first: int, last: int) -> int:
        return sum(nanos for start, nanos in costs if first <= start < last)

    nanos_by_day = [(day.first, nanos_between(*day.bounds)) for day in past.days]
    return replace(
        month_forecast(
            today, nanos_between(month[0], end), nanos_between(begun, end), nanos_by_day
        ),
        before_nanos=nanos_between(*before.bounds),
        before_first=before.first,
        before_last=before.days[-1].first,
    )


def _names(readers: Readers, by: CostDimension, values: Collection[str]) -> Mapping[str, str]:
    """Names of the values that are ids."""
    if by == "team":
        return readers.team_names()
    return readers.teams.key_names(values) if by == "key" else {}


def _order(periods: Sums, values: Collection[str]) -> list[str]:
    """The values, the dearest first, and all others last."""
    nanos = {value: periods.get((1, value), {}).get("cost_nanos", 0) for value in values}
    return sorted(values, key=lambda value: (value == OTHER_VALUES, -nanos[value], value))


def _series(
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


def _amounts(numbers: Mapping[str, int]) -> CostAmounts:
    return cost_amounts(_cost_sums(numbers), numbers.get("idle_nanos", 0))


def _cost_sums(numbers: Mapping[str, int]) -> CostSums:
    """Sums by name as a value; those that were not read are 0."""
    sums = defaultdict(int, numbers)
    return CostSums(
        **{name: sums[name] for name in COUNTS}
        | {"attempts": sums["attempts"] - sums["idle_attempts"]},
        priced_list_nanos=sums["list_nanos"],
        priced_nanos=sums["cost_nanos"],
        usage=Usage(**{bucket: sums[bucket] for bucket in schema.BUCKETS}),
    )


def _reader(connection: Connection, query: ValueQuery) -> Read:
    """Reads rollups; receipts where users or tags are told apart, which rollups do not know."""
    parts: tuple[Part | None, ...] = (query.part, *query.only.values)
    needs_receipts = reads_receipts(filter(None, parts))
    return partial(_read_receipts if needs_receipts else bucket_sums, connection)


def _costs(rows: Columns | Mapping[str, ColumnElement[Any]]) -> Mapping[str, ColumnElement[Any]]:
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


def _dearest_users(
    connection: Connection, period: Sequence[int], only: SpendFilter, limit: int
) -> frozenset[str]:
    """Users that cost most, ranked in the database: there may be as many as calls."""
    calls = schema.calls.c
    cost = func.coalesce(func.sum(calls.cost_nanos), 0)
    query = (
        select(calls.user_hash)
        .where(*_calls_between(period, only))
        .group_by(calls.user_hash)
        .order_by(cost.desc(), calls.user_hash)
        .limit(limit)
    )
    return frozenset(connection.execute(query).scalars())


def _calls_between(edges: Sequence[int], only: SpendFilter) -> list[ColumnElement[bool]]:
    calls = schema.calls.c
    return [
        calls.call_id >= id_floor(edges[0]),
        calls.call_id < id_floor(edges[-1]),
        *filter_conditions(calls, only),
    ]
