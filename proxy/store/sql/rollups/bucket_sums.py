"""Sums over rollups in buckets of time, read from whole days of UTC and a few quarters.

Buckets begin at midnights of any time zone, and days of UTC do not: ``day_split.py`` says which day
is counted where, and which quarters are read apart. So a month costs as much as its days, whatever
its time zone, and sums are exact. Where a week of UTC is all of one bucket, its sum stands for it.
Calls of the last seconds, which no day has yet, are counted from ``rollup_pending``.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    and_,
    cast,
    column,
    func,
    literal_column,
    select,
    text,
    union,
)

from dashboards.reports import SpendFilter
from proxy.store.sql import schema
from proxy.store.sql.rollups.day_split import OUTSIDE, DaySplit, DayStrip, split_days, whole_weeks
from proxy.store.sql.rollups.rollup_tables import (
    DAY_KEY,
    HOUR_SUMS,
    hour_column,
    rollup_day_hours,
    rollup_days,
    rollup_pending,
    rollup_weeks,
)
from proxy.store.sql.rollups.spend_filters import Columns, filter_conditions

Place = Callable[[Columns], Sequence[ColumnElement[Any]]]
"""Returns the values of a row that sums are told apart by."""
Addends = Callable[[Columns], Mapping[str, ColumnElement[Any]]]
"""Returns the numbers of a row that are summed, by name."""
HourAddends = Callable[[Mapping[str, ColumnElement[Any]]], Mapping[str, ColumnElement[Any]]]
"""The same of an hour, whose sums are those of ``HOUR_SUMS``."""
Sums = dict[tuple[Any, ...], dict[str, int]]
"""Sums by name, of each bucket and place: the key is the bucket's index and the place's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumQuery:
    """Sums that are asked for.

    Attributes:
        place: Values that they are told apart by.
        hour_addends: The same numbers of an hour; None where ``HOUR_SUMS`` lacks one.
    """

    place: Place
    addends: Addends
    only: SpendFilter
    hour_addends: HourAddends | None = None

    def places(self, rows: Columns) -> list[ColumnElement[Any]]:
        """The place of a row."""
        return [value.label(f"place_{n}") for n, value in enumerate(self.place(rows))]

    def has_hours(self, strips: Sequence[DayStrip]) -> bool:
        """True if these parts of days can be read by the hour."""
        return self.hour_addends is not None and all(strip.has_whole_hours for strip in strips)

    def numbers(self, rows: Columns) -> list[ColumnElement[Any]]:
        """The numbers of a row."""
        return [addend.label(name) for name, addend in self.addends(rows).items()]


class _Totals:
    """Sums that are being added up, by bucket and place."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], list[int]] = {}

    def add(self, key: tuple[Any, ...], numbers: Sequence[int | None], sign: int = 1) -> None:
        """Add numbers, in the order of the names, or take them away."""
        total = self._found.get(key)
        if total is None:
            self._found[key] = [sign * (number or 0) for number in numbers]
            return
        for n, number in enumerate(numbers):
            if number:
                total[n] += sign * number

    def read(self, connection: Connection, query: Select[Any], more: int = 0) -> None:
        """Add the rows of a query: bucket, ``more`` buckets to take from, place, numbers."""
        result = connection.execute(query)
        places = 1 + more + sum(name.startswith("place_") for name in result.keys())  # noqa: SIM118 - not a dict
        for row in result:
            place, numbers = tuple(row[1 + more : places]), row[places:]
            self.add((row[0], *place), numbers)
            for bucket in row[1 : 1 + more]:
                self.add((bucket, *place), numbers, -1)

    def by_name(self, names: Sequence[str]) -> Sums:
        """The sums of buckets that have any, by name."""
        return {
            key: dict(zip(names, numbers, strict=True))
            for key, numbers in self._found.items()
            if key[0] != OUTSIDE and any(numbers)
        }


def bucket_sums(connection: Connection, edges: Sequence[int], query: SumQuery) -> Sums:
    """Sums over rollups in each bucket, by place; what is unknown adds nothing.

    Args:
        connection: Of one transaction, all of whose statements see the same rows.
        edges: Beginnings of buckets, and the end of the last, in seconds since the epoch: whole
            quarters of an hour.
    """
    totals, split = _Totals(), split_days(edges)
    counted = [day for day in split.days if day[1] != OUTSIDE]
    weeks, days = whole_weeks(counted)
    for rows, moment, some in (
        (rollup_weeks.c, rollup_weeks.c.week, weeks),
        (rollup_days.c, rollup_days.c.day, days),
    ):
        if some:
            totals.read(connection, _whole(rows, moment, some, query))
    if query.has_hours(split.strips):
        _add_hours(connection, totals, split.strips, query)
        totals.read(connection, _pending_sums(edges, query))
    else:
        # Quarters have pending calls: these count as their day does, until they are taken from it.
        rows = rollup_pending.c
        if counted:
            totals.read(connection, _whole(rows, rows.day, counted, query))
        if split.strips:
            totals.read(connection, _quarters(split, query), more=1)
    return totals.by_name([*query.addends(rollup_days.c)])


def _whole(
    rows: Columns,
    moment: ColumnElement[int],
    counted: Sequence[tuple[int, int]],
    query: SumQuery,
) -> Select[Any]:
    """Sums of the rows of these days or weeks, by the bucket that each is counted in."""
    first, last = counted[0][0], counted[-1][0]
    is_gapless = last - first == len(counted) - 1
    inside = moment.between(first, last) if is_gapless else moment.in_([n for n, _ in counted])
    query_rows = select(
        bucket_case(moment, counted).label("bucket"), *query.places(rows), *query.numbers(rows)
    ).where(inside, *filter_conditions(rows, query.only))
    return _group_sums(query_rows)


def _pending_sums(edges: Sequence[int], query: SumQuery) -> Select[Any]:
    """Sums of pending rows by the bucket of their quarter."""
    rows = rollup_pending.c
    starts = [(edge, bucket) for bucket, edge in enumerate(edges[:-1])]
    query_rows = select(
        bucket_case(rows.quarter, starts).label("bucket"),
        *query.places(rows),
        *query.numbers(rows),
    ).where(
        rows.quarter >= edges[0],
        rows.quarter < edges[-1],
        *filter_conditions(rows, query.only),
    )
    return _group_sums(query_rows)


def _quarters(split: DaySplit, query: SumQuery) -> Select[Any]:
    """Quarters that belong to another bucket than their day.

    The days say which rollups there are, so that only those quarters are read: they are found
    first, because a planner would rather read all quarters of a day.
    """
    strips = _value_table(
        ("strip_day", "first", "last", "bucket", "counted_in"),
        [astuple(strip) for strip in split.strips],
    )
    rows = schema.rollups.c
    places = (
        union(*(
            select(*strips.c, *(days.c[name].label(f"found_{name}") for name in DAY_KEY))
            .select_from(strips.join(days, days.c.day == strips.c.strip_day))
            .where(*filter_conditions(days.c, query.only))
            for days in (rollup_days, rollup_pending)
        ))
        .cte("places")
        .prefix_with("MATERIALIZED")
    )  # fmt: skip
    same = and_(*(rows[name] == places.c[f"found_{name}"] for name in DAY_KEY))
    query_rows = (
        select(
            places.c.bucket,
            places.c.counted_in,
            *query.places(rows),
            *query.numbers(rows),
        )
        .select_from(places.join(schema.rollups, same))
        .where(rows.quarter >= places.c.first, rows.quarter < places.c.last)
    )
    return _group_sums(query_rows, "counted_in")


def _add_hours(
    connection: Connection, totals: _Totals, strips: Sequence[DayStrip], query: SumQuery
) -> None:
    """Add whole hours that belong to another bucket than their day, which has them as columns."""
    addends = query.hour_addends
    if addends is None or not strips:
        return
    rows, names = rollup_day_hours.c, [*query.addends(rollup_days.c)]
    parts = sorted({day_strip.hours for day_strip in strips})
    numbers: list[ColumnElement[Any]] = []
    for n, (first, end) in enumerate(parts):
        hours = {
            name: sum((_hour(name, hour) for hour in range(first + 1, end)), _hour(name, first))
            for name in HOUR_SUMS
        }
        sums = addends(hours)
        numbers += [sums[name].label(f"{name}_{n}") for name in names]
    days = defaultdict[int, list[DayStrip]](list)
    for day_strip in strips:
        days[day_strip.day].append(day_strip)
    query_rows = select(rows.day.label("bucket"), *query.places(rows), *numbers).where(
        rows.day.in_(sorted(days)), *filter_conditions(rows, query.only)
    )
    begins = {part: n * len(names) for n, part in enumerate(parts)}
    for row in connection.execute(_group_sums(query_rows)):
        place, sums_of_parts = tuple(row[1 : -len(numbers)]), row[-len(numbers) :]
        for strip in days[row[0]]:
            begin = begins[strip.hours]
            some = sums_of_parts[begin : begin + len(names)]
            totals.add((strip.bucket, *place), some)
            totals.add((strip.counted_in, *place), some, -1)


def _hour(name: str, hour: int) -> ColumnElement[int]:
    """A sum of an hour, 0 where it has no call."""
    return func.coalesce(rollup_day_hours.c[hour_column(name, hour)], literal_column("0"))


def _value_table(names: Sequence[str], rows: Sequence[tuple[int, ...]]) -> CTE:
    """A table of these numbers; as text, for ``VALUES`` would be compiled anew each time."""
    named = [
        ", ".join(f"{value} AS {name}" for name, value in zip(names, row, strict=True))
        for row in rows
    ]
    table = text(" UNION ALL ".join(f"SELECT {fields}" for fields in named))
    return table.columns(*(column(name, BigInteger) for name in names)).cte("strips")


def _group_sums(query: Select[Any], *more: str) -> Select[Any]:
    """The sums of a query's rows by bucket and place."""
    rows = query.subquery("rows").c
    groups = [
        row_column for row_column in rows
        if row_column.name in {"bucket", *more} or row_column.name.startswith("place_")
    ]  # fmt: skip
    names = {row_column.name for row_column in groups}
    sums = [
        cast(func.sum(row_column), BigInteger).label(row_column.name)
        for row_column in rows
        if row_column.name not in names
    ]
    return select(*groups, *sums).group_by(*groups)


def bucket_case(
    moment: ColumnElement[int], starts: Sequence[tuple[int, int]]
) -> ColumnElement[int]:
    """The bucket of a moment, found by halves; as text, for a tree of it takes long to compile.

    Args:
        moment: A column, at or after the first start.
        starts: Moments from which on a bucket is the right one, ascending.
    """
    changes = [start for n, start in enumerate(starts) if n == 0 or start[1] != starts[n - 1][1]]
    sql = _bucket_sql(str(moment), changes)
    return literal_column(sql, BigInteger)


def _bucket_sql(moment: str, starts: Sequence[tuple[int, int]]) -> str:
    if len(starts) <= 1:
        return str(starts[0][1] if starts else OUTSIDE)
    middle = len(starts) // 2
    below, above = _bucket_sql(moment, starts[:middle]), _bucket_sql(moment, starts[middle:])
    return f"CASE WHEN {moment} < {starts[middle][0]} THEN {below} ELSE {above} END"
