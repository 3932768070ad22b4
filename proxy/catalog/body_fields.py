"""Reads an upstream's table of body fields to add, rename or drop, which then need no code."""

import math
from datetime import date, time
from decimal import Decimal
from typing import Any, Final

import msgspec

from proxy.catalog.entries import BodyFields
from slo.toml.fields import Field
from slo.toml.nodes import Node
from slo.toml.problems import Problem
from slo.toml.table_reader import TableReader, checked_value

_PARTS: Final = ("add", "rename", "drop")
#: Fields that the gateway writes or reads in every call, so that no table may touch them.
_RESERVED: Final = frozenset(
    {"model", "messages", "input", "prompt", "contents", "stream", "stream_options"}
)
_MAX_INTEGER: Final = 2**63 - 1
_JSON_FIX: Final = "write a string, number, true, false, array or table"


def body_fields(table: TableReader, field: Field) -> BodyFields:
    """The changes in ``body_fields``."""
    parts = TableReader(table.nodes[field.key], _PARTS, table.problems)
    added = parts.entries("add")
    renamed = parts.entries("rename")
    dropped = parts.elements("drop")
    places = [*added.items(), *renamed.items()]
    rename = {name: _name(value, table.problems) for name, value in renamed.items()}
    drop = [(_name(value, table.problems), value) for value in dropped]
    places += [*{new: (new, renamed[name]) for name, new in rename.items()}.values(), *drop]
    _check_places(places, table.problems)
    return BodyFields(
        add={name: _json(value, table.problems) for name, value in added.items()},
        rename={name: new for name, new in rename.items() if new},
        drop=frozenset(name for name, _ in drop if name),
    )


def _name(node: Node, problems: list[Problem]) -> str:
    """The name of a field; "" where it is none."""
    name = checked_value(node, str, problems, "write the name of a field")
    if name == "":
        problems.append(node.problem("names no field", "write the name of a field"))
    return name or ""


def _check_places(places: list[tuple[str, Node]], problems: list[Problem]) -> None:
    """Report fields that are the gateway's own, and those that stand in several parts."""
    names: set[str] = set()
    for name, node in places:
        if name in _RESERVED:
            what = f"changes {name}, which the gateway writes itself"
            problems.append(node.problem(what, "leave it out"))
        elif name in names:
            problems.append(node.problem(f"changes {name} twice", "leave one of them out"))
        names.update({name} - {""})


def _json(node: Node, problems: list[Problem]) -> bytes:
    """The value as JSON; ``null`` where a body cannot hold it."""
    try:
        return msgspec.json.encode(_plain_value(node, problems))
    except RecursionError:
        problems.append(node.problem("is nested too deeply", "write fewer levels"))
        return b"null"


def _plain_value(node: Node, problems: list[Problem]) -> Any:  # noqa: ANN401 - whatever JSON can say
    value = node.value
    if isinstance(value, dict):
        return {name: _plain_value(inner, problems) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain_value(inner, problems) for inner in value]
    if isinstance(value, Decimal):
        value = float(value)
    is_endless = isinstance(value, float) and not math.isfinite(value)
    is_huge = isinstance(value, int) and abs(value) > _MAX_INTEGER
    if is_endless or is_huge or isinstance(value, date | time):
        problems.append(node.problem(f"is {str(value)[:40]}, which no JSON holds", _JSON_FIX))
        return None
    return value
