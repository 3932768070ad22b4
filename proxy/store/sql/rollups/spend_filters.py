"""Conditions and values that queries of rollups and of receipts share."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, case, func, literal, literal_column, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import Integer

from dashboards.reports import Part, SpendFilter, is_tag
from proxy.store.sql import schema
from slo.usage import TAG_KEY, TAG_PREFIX

Columns = ReadOnlyColumnCollection[str, Any]

COLUMN_NAMES: Final[Mapping[Part, str]] = {
    "requested": "model",
    "key": "key_id",
    "user": "user_hash",
}
"""Columns of parts that have another name."""


class _Position(GenericFunction[int]):
    """Position of a text in another, from 1; 0 where it is not in it."""

    type = Integer()
    inherit_cache = True
    name = "text_position"


@compiles(_Position, "sqlite")
def _position_in_sqlite(element: Any, compiler: Any, **words: Any) -> str:  # noqa: ANN401
    return f"instr({compiler.process(element.clauses, **words)})"


@compiles(_Position, "postgresql")
def _position_in_postgres(element: Any, compiler: Any, **words: Any) -> str:  # noqa: ANN401
    return f"strpos({compiler.process(element.clauses, **words)})"


class _TagValue(GenericFunction[str]):
    """A tag's value in the JSON of tags; null where it has none."""

    type = schema.TEXT
    inherit_cache = True
    name = "tag_value"


@compiles(_TagValue, "sqlite")
def _tag_value_in_sqlite(element: Any, compiler: Any, **words: Any) -> str:  # noqa: ANN401
    tags, key = (compiler.process(clause, **words) for clause in element.clauses)
    return f"json_extract({tags}, '$.\"' || {key} || '\"')"


@compiles(_TagValue, "postgresql")
def _tag_value_in_postgres(element: Any, compiler: Any, **words: Any) -> str:  # noqa: ANN401
    tags, key = (compiler.process(clause, **words) for clause in element.clauses)
    return f"(CAST({tags} AS json) ->> {key})"


def part_column(columns: Columns, part: Part) -> ColumnElement[str]:
    """The value of a part in a row of rollups or receipts."""
    if part == "model":
        return _answering_model(columns.route, columns.model)
    if is_tag(part):
        return _tag_value(columns.tags, part.removeprefix(TAG_PREFIX))
    column: ColumnElement[str] = columns[COLUMN_NAMES.get(part, part)]
    return column


def filter_conditions(columns: Columns, only: SpendFilter) -> list[ColumnElement[bool]]:
    """Conditions that leave the rows a filter counts.

    Teams are always named, those of all calls too: so a query walks one range of the primary key
    for each.
    """
    teams = only.counted_teams
    conditions = [columns.team.in_(_TEAMS if teams is None else sorted(teams))]
    return conditions + [
        part_column(columns, part).in_(sorted(values))
        for part, values in only.values.items()
        if part != "team"
    ]


def relabel(value: ColumnElement[Any], labels: Mapping[str, str]) -> ColumnElement[Any]:
    """A value by its label, as it is where it has none."""
    return case(labels, value=value, else_=value) if labels else value


def merge_others(value: ColumnElement[Any], shown: Iterable[str], rest: str) -> ColumnElement[Any]:
    """A value where it is shown, and one for all others."""
    return case((value.in_(sorted(shown)), value), else_=literal(rest, schema.TEXT))


def _tag_value(tags: ColumnElement[str], key: str) -> ColumnElement[str]:
    """The value of a tag; "" for none. The key is part of the statement, which groups by it."""
    if not TAG_KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no key of a tag")
    value: ColumnElement[str] = _TagValue(tags, literal_column(f"'{key}'"))
    return func.coalesce(value, literal_column("''"))


def _answering_model(
    route: ColumnElement[str], requested: ColumnElement[str]
) -> ColumnElement[str]:
    """The model that answered, as ``records.receipt.answering_model`` finds it."""
    slash = _Position(route, "/")
    behind = func.substr(route, slash + 1)
    name = func.substr(behind, 1, _Position(behind.concat("#"), "#") - 1)
    is_named = (slash > 0) & (name != "") & (_Position(name, "*") == 0)
    return case((is_named, name), else_=requested)


def _teams() -> Select[Any]:
    """All teams with rollups, by one step down the index for each."""
    table = schema.rollups
    first = select(func.min(table.c.team).label("team")).cte("paying", recursive=True)
    after = select(func.min(table.c.team)).where(table.c.team > first.c.team).scalar_subquery()
    steps = first.union_all(select(after).where(first.c.team.is_not(None)))
    return select(steps.c.team).where(steps.c.team.is_not(None))


_TEAMS: Final = _teams()  # one for all: a query with two parts may name it once
