"""Spend in buckets of time by one dimension, summed in the database."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    case,
    cast,
    func,
    literal_column,
    select,
)

from dashboards.cost_reports import CostSums
from dashboards.reports import ALL_CALLS, Part, SpendFilter
from proxy.records.receipt import IDLE_TEAM
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.rollups.bucket_sums import SumQuery, Sums, bucket_case, bucket_sums
from proxy.store.sql.rollups.rollup_statements import SUMS
from proxy.store.sql.rollups.spend_filters import (
    Columns,
    filter_conditions,
)
from proxy.store.sql.rollups.value_sums import (
    Read,
    ValueQuery,
    largest_values,
    merge_unshown,
    value_sums,
)
from slo.usage import Usage

_MICROS: Final = 1_000_000
_COUNTS: Final = ("calls", "attempts", "errors", "estimated", "unpriced")
_SUMMED: Final = (*_COUNTS, *schema.BUCKETS, "list_nanos", "cost_nanos")
#: Columns of receipts that sums are made of.
_RECEIPT_COLUMNS: Final = (
    "final",
    "outcome",
    "estimated",
    *schema.BUCKETS,
    "list_nanos",
    "cost_nanos",
    "team",
    "feature",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendSplit:
    """A split of spend by one part, its dearest values apart and all others together.

    Attributes:
        part: The part; None for none, so that all is one.
        labels: Values that have another label; values of one label are one.
        limit: The number of values kept apart; the rest is ``OTHER_VALUES``.
    """

    part: Part | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    limit: int = 0


class BucketSpend(msgspec.Struct, frozen=True):
    """Spend of one value in one bucket.

    Attributes:
        bucket: Index of the bucket.
        value: Value of the part; "" where it is not split.
        sums: Calls, tokens and costs.
        idle_nanos: The part of the costs that no call caused.
        unattributed_nanos: The part of the costs of calls that name no feature.
    """

    bucket: int
    value: str
    sums: CostSums
    idle_nanos: int
    unattributed_nanos: int


@dataclass(frozen=True, slots=True)
class SpendOverTime:
    """Spend of a period, by value.

    Attributes:
        periods: Sums of the period before, bucket 0, and of the period, bucket 1.
        buckets: Costs and calls of its buckets; all other sums are 0.
    """

    periods: Sequence[BucketSpend]
    buckets: Sequence[BucketSpend]


class SpendSeries:
    """Spend over time in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def spend_by_bucket(
        self, edges: Sequence[int], split: SpendSplit, only: SpendFilter = ALL_CALLS
    ) -> list[BucketSpend]:
        """Spend in each bucket that has any, by value; all of it is in exactly one row.

        It is summed from rollups, and from receipts where users are told apart.

        Args:
            edges: Beginnings of buckets, and the end of the last, in seconds since the epoch: whole
                quarters of an hour.
            split: Values that are told apart: those that cost most between the edges.
            only: Calls that count.
        """
        with read_transaction(self._engine, is_snapshot=True) as connection:
            read = _reader(connection, split, only)
            query = _query(split, only)
            whole = edges[0], edges[-1]
            shown = _dearest(connection, read, whole, query, split.limit)
            return _spend(read, edges, replace(query, addends=_addends, shown=shown))

    def costs_by_bucket(self, edges: Sequence[int], only: SpendFilter = ALL_CALLS) -> list[int]:
        """Known cost of each bucket in nano-dollars, of all that counts together."""
        split, found = SpendSplit(), [0] * (len(edges) - 1)
        with read_transaction(self._engine, is_snapshot=True) as connection:
            query = replace(_query(split, only), hour_addends=_costs)
            for each in _spend(_reader(connection, split, only), edges, query):
                found[each.bucket] = each.sums.priced_nanos
        return found

    def spend_over_time(
        self, edges: Sequence[int], split: SpendSplit, only: SpendFilter = ALL_CALLS
    ) -> SpendOverTime:
        """Spend of a period and of the one before it, whole, and its costs by bucket.

        Args:
            edges: Beginning of the period before, beginnings of buckets, and the end of the last.
            split: Values that are told apart: those that cost most in the period.
            only: Calls that count.
        """
        periods, query = (edges[0], edges[1], edges[-1]), _query(split, only)
        every = replace(query, addends=_addends)
        with read_transaction(self._engine, is_snapshot=True) as connection:
            read = _reader(connection, split, only)
            if split.part in {None, "user"}:  # of many users, few come back
                shown = _dearest(connection, read, periods[1:], query, split.limit)
                sums = value_sums(read, periods, replace(every, shown=shown))
            else:
                found = value_sums(read, periods, every)
                shown = largest_values(found, "cost_nanos", split.limit, bucket=1)
                sums = merge_unshown(found, shown)
            costs = replace(query, shown=shown, hour_addends=_costs)
            return SpendOverTime(_bucket_spends(sums), _spend(read, edges[1:], costs))


def _reader(connection: Connection, split: SpendSplit, only: SpendFilter) -> Read:
    """Reads rollups; receipts where users are told apart, whom rollups do not know."""
    needs_receipts = split.part == "user" or "user" in only.values
    return partial(_read_receipts if needs_receipts else bucket_sums, connection)


def _query(split: SpendSplit, only: SpendFilter) -> ValueQuery:
    """The query of costs by value."""
    return ValueQuery(part=split.part, labels=split.labels, addends=_costs, only=only)


def _dearest(
    connection: Connection, read: Read, period: Sequence[int], query: ValueQuery, limit: int
) -> frozenset[str] | None:
    """The values that cost most in a period; None where nothing is split."""
    if query.part is None:
        return None
    if query.part == "user":
        return _dearest_users(connection, period, query.only, limit)
    return largest_values(value_sums(read, period, query), "cost_nanos", limit)


def _spend(read: Read, edges: Sequence[int], query: ValueQuery) -> list[BucketSpend]:
    return _bucket_spends(value_sums(read, edges, query))


def _bucket_spends(found: Sums) -> list[BucketSpend]:
    return [_bucket_spend(key[0], key[1], sums) for key, sums in found.items()]


def _costs(rows: Columns | Mapping[str, ColumnElement[Any]]) -> Mapping[str, ColumnElement[Any]]:
    """The numbers that a chart of costs needs, which are read in more buckets than all others."""
    return {name: rows[name] for name in ("calls", "unpriced", "cost_nanos")}


def _addends(rows: Columns) -> Mapping[str, ColumnElement[int]]:
    is_idle = rows.team == IDLE_TEAM
    return {
        **{name: rows[name] for name in _SUMMED},
        "idle_attempts": case((is_idle, rows.attempts), else_=0),
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
        .where(
            calls.call_id >= id_floor(edges[0]),
            calls.call_id < id_floor(edges[-1]),
            *filter_conditions(calls, query.only),
        )
        .subquery("rows")
        .c
    )
    is_idle = rows.team == IDLE_TEAM
    sums: dict[str, ColumnElement[Any]] = {name: literal_column(SUMS[name]) for name in _SUMMED}
    sums["idle_attempts"] = func.sum(case((is_idle, 1), else_=0))
    sums["idle_nanos"] = func.sum(case((is_idle, rows.cost_nanos), else_=0))
    sums["unattributed_nanos"] = func.sum(case((rows.feature == "", rows.cost_nanos), else_=0))
    groups = [each for each in rows if each.name == "bucket" or each.name.startswith("place_")]
    summed = select(
        *groups, *(cast(each, BigInteger).label(name) for name, each in sums.items())
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
        .where(
            calls.call_id >= id_floor(period[0]),
            calls.call_id < id_floor(period[-1]),
            *filter_conditions(calls, only),
        )
        .group_by(calls.user_hash)
        .order_by(cost.desc(), calls.user_hash)
        .limit(limit)
    )
    return frozenset(connection.execute(query).scalars())


def _bucket_spend(bucket: int, value: str, sums: Mapping[str, int]) -> BucketSpend:
    """Sums as a value; those that were not read are 0."""
    found = defaultdict(int, sums)
    return BucketSpend(
        bucket=bucket,
        value=value,
        sums=CostSums(
            **{name: found[name] for name in _COUNTS}
            | {"attempts": found["attempts"] - found["idle_attempts"]},
            priced_list_nanos=found["list_nanos"],
            priced_nanos=found["cost_nanos"],
            usage=Usage(**{bucket: found[bucket] for bucket in schema.BUCKETS}),
        ),
        idle_nanos=found["idle_nanos"],
        unattributed_nanos=found["unattributed_nanos"],
    )
