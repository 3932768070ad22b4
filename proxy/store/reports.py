"""Cost reports from the rollups, by user from receipts; see ``dashboards.reports.Reports``."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Engine,
    Row,
    Select,
    cast,
    func,
    literal_column,
    select,
)

from dashboards.reports import BY_TEAM, MOST_USERS, Part, Period, Spend
from proxy.store import schema
from proxy.store.database import reading
from proxy.store.ids import id_floor
from proxy.store.inserts import SUMS
from proxy.store.moments import seconds
from slo.usage import Usage

_PARTS: tuple[Part, ...] = ("team", "feature", "model", "route", "key")
_COLUMNS: dict[Part, str] = {"key": "key_id", "user": "user_hash"}
_DAY = 86_400
_COUNTS = ("calls", "attempts", "errors", "estimated", "unpriced")
_SUMMED = (
    *_COUNTS,
    *schema.BUCKETS,
    "list_nanos",
    "cost_nanos",
    "ttft_sum",
    "ttft_count",
    "duration_sum",
)


class LedgerReports:
    """Reports over one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def spend(self, period: Period, by: Collection[Part] = BY_TEAM) -> list[Spend]:
        """See ``Reports.spend``."""
        parts = [part for part in _PARTS if part in by]
        query = _query(parts, *period.bounds)
        if "user" in by:
            parts.append("user")
            query = _by_user(parts, *period.bounds)
        with reading(self._engine) as connection:
            rows = connection.execute(query)
            return [_spend(parts, row) for row in rows if row.attempts]

    def unpriced(self, period: Period) -> list[Spend]:
        """See ``Reports.unpriced``."""
        by: tuple[Part, ...] = ("team", "feature", "model", "route")
        return [row for row in self.spend(period, by) if row.unpriced]

    def features(self, team: str) -> list[str]:
        """The features of all calls the team ever made, in order; "" for calls that named none."""
        table = schema.rollups.c
        query = select(table.feature).where(table.team == team).distinct().order_by(table.feature)
        with reading(self._engine) as connection:
            return list(connection.execute(query).scalars())


def _query(parts: list[Part], start: int, end: int) -> Select[Any]:
    """Sums of days along the primary key, which need no sorting, and then the sums of those."""
    table = schema.rollups.c
    deepest = max((_PARTS.index(part) for part in parts), default=0)
    first, *others = (table[_COLUMNS.get(part, part)] for part in _PARTS[: deepest + 1])
    days = (
        select(first, table.day, *others, *(_sum(table[name]) for name in _SUMMED))
        .where(
            table.team.in_(_teams()),
            table.day.between(start // _DAY, end // _DAY),
            table.quarter >= start,
            table.quarter < end,
        )
        .group_by(first, table.day, *others)
        .subquery("days")
        .c
    )
    groups = [days[_COLUMNS.get(part, part)].label(part) for part in parts]
    return (
        select(*groups, *(_sum(days[name]) for name in _SUMMED)).group_by(*groups).order_by(*groups)
    )


def _by_user(parts: list[Part], start: int, end: int) -> Select[Any]:
    """Sums of receipts, the dearest first; ids sort by time, which bounds what is read."""
    table = schema.calls.c
    groups = [table[_COLUMNS.get(part, part)].label(part) for part in parts]
    sums = [cast(literal_column(told), BigInteger).label(name) for name, told in SUMS.items()]
    dearest = func.coalesce(func.sum(table.cost_nanos), 0).desc()
    return (
        select(*groups, *sums)
        .where(table.call_id >= id_floor(start), table.call_id < id_floor(end))
        .group_by(*groups)
        .order_by(dearest, *groups)
        .limit(MOST_USERS)
    )


def _sum(column: ColumnElement[Any]) -> ColumnElement[int]:
    return cast(func.sum(column), BigInteger).label(column.name)


def _teams() -> Select[Any]:
    """All teams with rollups, by one step down the index for each."""
    table = schema.rollups
    first = select(func.min(table.c.team).label("team")).cte("paying", recursive=True)
    after = select(func.min(table.c.team)).where(table.c.team > first.c.team).scalar_subquery()
    steps = first.union_all(select(after).where(first.c.team.is_not(None)))
    return select(steps.c.team).where(steps.c.team.is_not(None))


def _spend(parts: list[Part], row: Row[Any]) -> Spend:
    named = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for it
    return Spend(
        **{part: named[part] for part in parts},
        **{count: named[count] for count in _COUNTS},
        usage=Usage(**{bucket: named[bucket] for bucket in schema.BUCKETS}),
        list_nanos=_cost(row.list_nanos, row.unpriced),
        cost_nanos=_cost(row.cost_nanos, row.unpriced),
        ttft=seconds(row.ttft_sum / row.ttft_count) if row.ttft_count else None,
        duration=seconds(row.duration_sum / row.calls) if row.calls else None,
    )


def _cost(nanos: int | None, unpriced: int) -> int | None:
    """Nothing used costs nothing; something used at no known price costs nobody knows what."""
    return 0 if nanos is None and not unpriced else nanos
