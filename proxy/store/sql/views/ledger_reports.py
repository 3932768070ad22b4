"""Cost reports from rollups, by user and tag from receipts; see ``dashboards.reports.Reports``."""

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Case,
    ColumnElement,
    Engine,
    Label,
    Row,
    Select,
    case,
    cast,
    func,
    literal,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from dashboards.reports import (
    ALL_CALLS,
    BY_TEAM,
    MAX_TIMED_CALLS,
    MAX_USERS,
    Part,
    Percentiles,
    ReportPeriod,
    Spend,
    SpendFilter,
    Times,
    is_tag,
    ordered_parts,
    reads_receipts,
)
from proxy.records.receipt import IDLE_TEAM, answering_model
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.engine_usage import (
    FeatureSpeeds,
    UpstreamUsage,
    feature_speeds,
    upstream_usage,
)
from proxy.store.sql.rollups.rollup_statements import COUNTS, SPEND_SUMS, SUMS
from proxy.store.sql.rollups.rollup_tables import rollup_days, rollup_pending
from proxy.store.sql.rollups.spend_filters import (
    COLUMN_NAMES,
    Columns,
    filter_conditions,
    part_column,
)
from proxy.store.sql.timestamps import seconds
from slo.usage import Usage

_PARTS: tuple[Part, ...] = ("team", "feature", "requested", "route", "upstream", "key")
#: Columns with the model that answered.
_ANSWERED_BY: tuple[Part, ...] = ("requested", "route")
_PERCENTS = (50, 95, 99)
_PAGE_ROWS = 5_000
#: Seconds that a statement which reads receipts may take on PostgreSQL.
_RECEIPTS_TIMEOUT_S = 600.0
_DAY_S = 86_400
_SUMMED = (*SPEND_SUMS, "ttft_sum", "duration_sum")
#: Parts of two sums that are no calls: idle time of replicas.
_IDLE = {"idle_nanos": "cost_nanos", "idle_attempts": "attempts"}


class LedgerReports:
    """Reports over one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def spend(
        self, period: ReportPeriod, by: Collection[Part] = BY_TEAM, only: SpendFilter = ALL_CALLS
    ) -> list[Spend]:
        """See ``Reports.spend``."""
        read = _parts_to_read(by)
        is_split = reads_receipts(by)
        needs_receipts = is_split or reads_receipts(only.values)
        query = (_from_receipts if needs_receipts else _query)(read, *period.bounds, only)
        query = query.limit(MAX_USERS) if is_split else query
        timeout_s = _RECEIPTS_TIMEOUT_S if needs_receipts else 0.0
        with read_transaction(self._engine, statement_timeout_s=timeout_s) as connection:
            rows = [row._asdict() for row in connection.execute(query) if _is_shown(row)]
        if "model" not in by:
            return [_spend(read, row) for row in rows]
        parts = ordered_parts(by)
        spends = [_spend(parts, row) for row in _merge_rows(parts, rows)]
        if is_split:
            return sorted(spends, key=lambda row: -(row.cost_nanos or 0))
        return sorted(spends, key=lambda row: [getattr(row, part) for part in parts])

    def has_more_receipts(self, periods: Iterable[ReportPeriod], count: int) -> bool:
        """True if periods that are apart have more receipts than so many."""
        ids, left = schema.calls.c.call_id, count
        with read_transaction(self._engine) as connection:
            for start, end in (period.bounds for period in periods):
                inside = select(ids).where(ids >= id_floor(start), ids < id_floor(end))
                some = inside.limit(left + 1).subquery()
                left -= connection.execute(select(func.count()).select_from(some)).scalar_one()
                if left < 0:
                    return True
        return False

    def times(
        self, period: ReportPeriod, by: Collection[Part] = BY_TEAM
    ) -> Mapping[tuple[str, ...], Times]:
        """See ``Reports.times``."""
        read, parts = _parts_to_read(by), ordered_parts(by)
        ttfts: dict[tuple[str, ...], array[int]] = defaultdict(lambda: array("q"))
        durations: dict[tuple[str, ...], array[int]] = defaultdict(lambda: array("q"))
        with read_transaction(self._engine) as connection:
            rows = connection.execution_options(yield_per=_PAGE_ROWS).execute(
                _times(read, *period.bounds)
            )
            for *values, ttft, duration in rows:
                named = dict(zip(read, values, strict=True))
                for key in {(), tuple(_value(part, named) for part in parts)}:
                    durations[key].append(duration)
                    if ttft is not None:
                        ttfts[key].append(ttft)
        return {
            key: Times(_percentiles(ttfts.get(key)), _percentiles(micros), len(micros))
            for key, micros in durations.items()
        }

    def upstream_usage(self, upstreams: Sequence[str], since: float) -> list[UpstreamUsage]:
        """The use of these upstreams since a moment, to the second."""
        return upstream_usage(self._engine, upstreams, since)

    def feature_speeds(self, upstreams: Sequence[str], since: float) -> list[FeatureSpeeds]:
        """Speeds of decode at these upstreams since a moment, with drafts and without."""
        return feature_speeds(self._engine, upstreams, since)

    def features(self, team: str) -> list[str]:
        """The features of all calls the team ever made, in order; "" for calls that named none."""
        table = schema.rollups.c
        query = select(table.feature).where(table.team == team).distinct().order_by(table.feature)
        with read_transaction(self._engine) as connection:
            return list(connection.execute(query).scalars())


def _parts_to_read(by: Collection[Part]) -> list[Part]:
    """The parts that are read for a report."""
    parts = {*by, *_ANSWERED_BY} if "model" in by else set(by)
    tags = [part for part in ordered_parts(by) if is_tag(part)]
    return [*(part for part in (*_PARTS, "user") if part in parts), *tags]


def _value(part: Part, read: Mapping[str, Any]) -> str:
    if part == "model":
        return answering_model(read["route"], read["requested"])
    return str(read[part])


def _merge_rows(
    parts: Sequence[Part], rows: Iterable[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """Rows with the model that answered, summed where they have all parts in common."""
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        values: dict[str, str] = {part: _value(part, row) for part in parts}
        key = tuple(values.values())
        if key not in merged:
            merged[key] = {**row, **values}
            continue
        sums = merged[key]
        for name in (*_SUMMED, *_IDLE):
            sums[name] = row[name] if sums[name] is None else sums[name] + (row[name] or 0)
    yield from merged.values()


def _times(parts: Sequence[Part], start: int, end: int) -> Select[Any]:
    """Parts and times of calls, of the newest; of those that were refused nobody waited."""
    table = schema.calls.c
    columns = (table[COLUMN_NAMES.get(part, part)] for part in parts)
    return (
        select(*columns, table.ttft, table.duration)
        .where(
            table.call_id >= id_floor(start),
            table.call_id < id_floor(end),
            table.final == 1,
            table.outcome != "refused",
        )
        .order_by(table.call_id.desc())
        .limit(MAX_TIMED_CALLS)
    )


def _percentiles(micros: "array[int] | None") -> Percentiles:
    """By nearest rank: a time that a call really took."""
    if not micros:
        return Percentiles()
    ranked = sorted(micros)
    return Percentiles(*(seconds(ranked[-(-len(ranked) * part // 100) - 1]) for part in _PERCENTS))


def _sources(start: int, end: int) -> list[tuple[Columns, ColumnElement[bool]]]:
    """Whole days of UTC, whose calls may be pending yet, and quarters before and after; conditions.

    There are fifty times as many rows of quarters as of days.
    """
    first, last = -(-start // _DAY_S), end // _DAY_S
    edges, sources = [(start, end)], list[tuple[Columns, ColumnElement[bool]]]()
    if first < last:
        edges = [(start, first * _DAY_S), (last * _DAY_S, end)]
        both = rollup_days.c, rollup_pending.c
        sources = [(days, days.day.between(first, last - 1)) for days in both]
    quarters = schema.rollups.c
    sources += [
        (
            quarters,
            quarters.day.between(since // _DAY_S, until // _DAY_S)
            & (quarters.quarter >= since)
            & (quarters.quarter < until),
        )
        for since, until in edges
        if since < until or not sources
    ]
    return sources


def _query(parts: list[Part], start: int, end: int, only: SpendFilter) -> Select[Any]:
    """Sums of rollups by these parts, in their order."""
    names = dict.fromkeys(("team", *(COLUMN_NAMES.get(part, part) for part in parts), *_SUMMED))
    every = [
        select(*(rows[name] for name in names)).where(inside, *filter_conditions(rows, only))
        for rows, inside in _sources(start, end)
    ]
    rows = union_all(*every).subquery("every").c
    groups = [rows[COLUMN_NAMES.get(part, part)].label(part) for part in parts]
    idle = (_sum(_idle_part(rows, rows[name])).label(label) for label, name in _IDLE.items())
    return (
        select(*groups, *(_sum(rows[name]) for name in _SUMMED), *idle)
        .group_by(*groups)
        .order_by(*groups)
    )


def _from_receipts(parts: list[Part], start: int, end: int, only: SpendFilter) -> Select[Any]:
    """Sums of receipts, the dearest first; ids sort by time, which bounds what is read."""
    table = schema.calls.c
    groups: list[Label[Any]] = [part_column(table, part).label(part) for part in parts]
    sums = [
        cast(literal_column(expression), BigInteger).label(name)
        for name, expression in SUMS.items()
    ]
    idle = _idle_part(table, table.cost_nanos), _idle_part(table, literal(1))
    sums += [_sum(part).label(label) for label, part in zip(_IDLE, idle, strict=True)]
    dearest = func.coalesce(func.sum(table.cost_nanos), 0).desc()
    return (
        select(*groups, *sums)
        .where(
            table.call_id >= id_floor(start),
            table.call_id < id_floor(end),
            *filter_conditions(table, only),
        )
        .group_by(*groups)
        .order_by(dearest, *groups)
    )


def _sum(column: ColumnElement[Any]) -> Label[int]:
    return cast(func.sum(column), BigInteger).label(getattr(column, "name", None))


def _idle_part(columns: ReadOnlyColumnCollection[str, Any], what: ColumnElement[Any]) -> Case[Any]:
    """A column as far as it is of idle replicas, else 0."""
    return case((columns.team == IDLE_TEAM, what), else_=0)


def _is_shown(row: Row[Any]) -> bool:
    """True unless there was neither an attempt nor idle time that costs."""
    return bool(row.attempts and (row.attempts > row.idle_attempts or row.idle_nanos))


def _spend(parts: Sequence[Part], named: Mapping[str, Any]) -> Spend:
    return Spend(
        **{part: named[part] for part in parts if not is_tag(part)},
        tags={part: named[part] for part in parts if is_tag(part)},
        **{count: named[count] for count in COUNTS}
        | {"attempts": named["attempts"] - named["idle_attempts"]},
        answered=named["ttft_count"],
        usage=Usage(**{bucket: named[bucket] for bucket in schema.BUCKETS}),
        list_nanos=_cost(named["list_nanos"], named["unpriced"]),
        cost_nanos=_cost(named["cost_nanos"], named["unpriced"]),
        ttft=seconds(named["ttft_sum"] / named["ttft_count"]) if named["ttft_count"] else None,
        duration=seconds(named["duration_sum"] / named["calls"]) if named["calls"] else None,
        idle_nanos=named["idle_nanos"] or 0,
    )


def _cost(nanos: int | None, unpriced: int) -> int | None:
    """The cost of usage; None where some of it has no known price."""
    return 0 if nanos is None and not unpriced else nanos
