"""Sums by the values of one dimension: some values separately, and all others together.

Models are separated here and not in the database: the model that answered follows from a route's
name, which SQL takes longer to parse than to read all numbers of the row.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import ColumnElement, literal

from dashboards.reports import Part, SpendFilter
from proxy.records.receipt import answering_model
from proxy.store.sql.rollups.bucket_sums import Addends, HourAddends, Place, SumQuery, Sums
from proxy.store.sql.rollups.spend_filters import Columns, merge_others, part_column, relabel

#: The value of all that is not kept apart; nothing else is called so.
OTHER_VALUES: Final = "\x01others"

Read = Callable[[Sequence[int], SumQuery], Sums]
"""Reads sums between edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueQuery:
    """Sums that are asked for by the values of one part.

    Attributes:
        labels: Values that have another label; values of one label are one.
        shown: Values that are kept apart; None for all.
        hour_addends: The same numbers of hours; None where hours lack one.
    """

    part: Part | None
    addends: Addends
    only: SpendFilter
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    shown: Collection[str] | None = None
    hour_addends: HourAddends | None = None

    def at(self, place: Place) -> SumQuery:
        """The sums told apart by a place."""
        return SumQuery(
            place=place,
            addends=self.addends,
            only=self.only,
            hour_addends=self.hour_addends,
        )


def value_columns(rows: Columns, query: ValueQuery) -> list[ColumnElement[Any]]:
    """Columns of a row that its value follows from, by ``value_of``."""
    if query.part is None:
        return [literal("")]
    if query.part == "model":
        return [rows.model, rows.route]
    return [relabel(part_column(rows, query.part), query.labels)]


def value_of(named: Sequence[str]) -> str:
    """The value that columns of a row name."""
    return answering_model(named[1], named[0]) if len(named) > 1 else named[0]


def value_sums(read: Read, edges: Sequence[int], query: ValueQuery) -> Sums:
    """Sums by bucket and value; ``OTHER_VALUES`` is the value of what is not shown."""
    if query.part == "model":
        return _model_sums(read, edges, query)

    return read(edges, query.at(lambda rows: _merged_columns(rows, query)))


def pair_sums(read: Read, edges: Sequence[int], rows: ValueQuery, columns: ValueQuery) -> Sums:
    """Sums by bucket and the values of two parts; addends and filter are those of the rows."""

    def place(table: Columns) -> Sequence[ColumnElement[Any]]:
        return [*_merged_columns(table, rows), *_merged_columns(table, columns)]

    split = 3 if rows.part == "model" else 2

    def key(place: tuple[Any, ...]) -> tuple[Any, ...]:
        values = value_of(place[1:split]), value_of(place[split:])
        return (
            place[0],
            *(_shown_value(*each) for each in zip(values, (rows, columns), strict=True)),
        )

    return sums_by(read(edges, rows.at(place)), key)


def _merged_columns(table: Columns, query: ValueQuery) -> list[ColumnElement[Any]]:
    """Columns of a value, merged where it is one column and not shown."""
    columns = value_columns(table, query)
    if len(columns) > 1 or query.part is None or query.shown is None:
        return columns
    return [merge_others(columns[0], query.shown, OTHER_VALUES)]


def _shown_value(value: str, query: ValueQuery) -> str:
    return value if query.shown is None or value in query.shown else OTHER_VALUES


def largest_values(sums: Sums, by: str, limit: int, bucket: int = 0) -> frozenset[str]:
    """So many values with the largest sums of a number in a bucket.

    Args:
        bucket: The bucket that they are ranked by.
    """
    ranked = sorted(
        (key for key in sums if key[0] == bucket), key=lambda key: (-sums[key][by], key[1])
    )
    return frozenset(value for _, value in ranked[:limit])


def merge_unshown(sums: Sums, shown: Collection[str]) -> Sums:
    """The same sums with all values that are not shown as one."""
    return sums_by(sums, lambda key: (key[0], key[1] if key[1] in shown else OTHER_VALUES))


def merge_labels(sums: Sums, labels: Mapping[str, str]) -> Sums:
    """The same sums by the label of each value; values without one are one, ""."""
    return sums_by(sums, lambda key: (key[0], labels.get(key[1], "")))


def sums_by(sums: Sums, key: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Sums:
    """The same sums by other keys, added up where those are the same.

    Args:
        key: Returns the new key for an old one.
    """
    rows = defaultdict[tuple[Any, ...], list[Mapping[str, int]]](list)
    for place, numbers in sums.items():
        rows[key(place)].append(numbers)
    return {place: add_up(some) for place, some in rows.items()}


def add_up(rows: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of each number by its name."""
    total: dict[str, int] = {}
    for row in rows:
        for name, number in row.items():
            total[name] = total.get(name, 0) + number
    return total


def _model_sums(read: Read, edges: Sequence[int], query: ValueQuery) -> Sums:
    """The same by the model that answered, of sums by model asked for and route."""
    sums = read(edges, query.at(lambda rows: value_columns(rows, query)))
    by_model = sums_by(sums, lambda key: (key[0], value_of(key[1:])))
    return by_model if query.shown is None else merge_unshown(by_model, query.shown)
