"""Compact JSON: no white space, and the keys of like objects once, as columns.

A list of like objects is ``{"columns":[…],"rows":[[…],…]}``; an object of them has ``entries``, a
row by its key; a list of lists of them has ``groups``. ``every_row`` holds what all rows share;
``absent`` stands in a row for a key its object does not have, ``a.b`` for the ``b`` of its ``a``;
``key`` names the member that is the same as the key of each entry.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from compaction.reading.message import CannotCompactError
from compaction.results.json_values import MAX_DEPTH, Number, Value

#: Minimum share of filled cells for which objects are written as a table.
MIN_FILLED_SHARE: Final = 0.6
#: Maximum levels of objects inside rows that become columns of their own.
_MAX_FLATTENED_LEVELS: Final = 3
_MAX_COLUMNS: Final = 200
#: Characters that a table's syntax adds.
_FRAME_CHARS: Final = 30
_WORDS: Final[Mapping[object, str]] = {None: "null", True: "true", False: "false"}
_ABSENT: Final = "~"

quoted: Final = json.encoder.encode_basestring

Columns = dict[str, list["Value | _Absence"]]


class _Absence:
    """No member of that name."""


_NONE: Final = _Absence()


class _AlreadyTabular(ValueError):
    """A value that has columns of its own: a table of ours could be taken for them."""


def table_json(value: Value) -> str:
    """The value as JSON, like objects as tables; "" if an object has a key ``columns``.

    Raises:
        CannotCompactError: If it is nested too deep.
    """
    try:
        return _value_json(value, 0)
    except _AlreadyTabular:
        return ""


def _value_json(value: Value, depth: int) -> str:
    if isinstance(value, str):
        return str(value) if isinstance(value, Number) else quoted(value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if depth > MAX_DEPTH:
        raise CannotCompactError("nested too deep")
    return (
        _list_json(value, depth + 1) if isinstance(value, list) else _object_json(value, depth + 1)
    )


def compact_json(value: Value, depth: int = 0) -> str:
    """The value as JSON without white space.

    Raises:
        CannotCompactError: If it is nested too deep.
    """
    if isinstance(value, str):
        return str(value) if isinstance(value, Number) else quoted(value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if depth > MAX_DEPTH:
        raise CannotCompactError("nested too deep")
    if isinstance(value, list):
        return "[" + ",".join([compact_json(element, depth + 1) for element in value]) + "]"
    inner = [f"{quoted(key)}:{compact_json(member, depth + 1)}" for key, member in value.items()]
    return "{" + ",".join(inner) + "}"


def _list_json(items: list[Value], depth: int) -> str:
    like = [item for item in items if isinstance(item, dict)]
    if len(items) > 1 and len(like) == len(items) and (columns := _table_columns(like)):
        rows = _Rows(columns, depth)
        return rows.with_frame('"rows":[' + ",".join(rows.rows) + "]")
    groups = [item for item in items if isinstance(item, list)]
    if len(items) > 1 and len(groups) == len(items) and (columns := _group_columns(groups)):
        return _grouped_json(groups, _Rows(columns, depth))
    return "[" + ",".join([_value_json(item, depth) for item in items]) + "]"


def _object_json(members: dict[str, Value], depth: int) -> str:
    if "columns" in members:
        raise _AlreadyTabular
    like = [item for item in members.values() if isinstance(item, dict) and item]
    keys = list(members)
    if len(members) > 1 and len(like) == len(members) and (columns := _table_columns(like, keys)):
        rows = _Rows(columns, depth, keys)
        pairs = [f"{quoted(key)}:{row}" for key, row in zip(members, rows.rows, strict=True)]
        return rows.with_frame('"entries":{' + ",".join(pairs) + "}")
    inner = [f"{quoted(key)}:{_value_json(member, depth)}" for key, member in members.items()]
    return "{" + ",".join(inner) + "}"


def _group_columns(groups: Sequence[list[Value]]) -> Columns | None:
    items = list(chain.from_iterable(groups))
    like = [item for item in items if isinstance(item, dict)]
    return _table_columns(like) if len(like) == len(items) > 1 else None


def _grouped_json(groups: Sequence[list[Value]], rows: "_Rows") -> str:
    following = iter(rows.rows)
    group_rows = ["[" + ",".join([next(following) for _ in group]) + "]" for group in groups]
    return rows.with_frame('"groups":[' + ",".join(group_rows) + "]")


def _table_columns(items: Sequence[dict[str, Value]], keys: Sequence[str] = ()) -> Columns | None:
    """The cells by column where these objects are alike and a table of them is shorter."""
    columns = _flattened_columns(items, _MAX_FLATTENED_LEVELS)
    if columns is None:
        return None
    saved = -_FRAME_CHARS
    if _key_column(columns, keys) is not None:
        saved += sum(map(len, keys)) + 3 * (len(keys) - 2)
    for name, cells in columns.items():
        missing = cells.count(_NONE)
        saved += (len(name) + 4) * (len(cells) - missing - 1) - 4 * missing
    return columns if saved > 0 else None


def _flattened_columns(items: Sequence[dict[str, Value]], levels: int) -> Columns | None:
    names = dict.fromkeys(chain.from_iterable(items))
    if "columns" in names:
        raise _AlreadyTabular
    room = len(items) * len(names)
    if not 0 < len(names) <= _MAX_COLUMNS or sum(map(len, items)) < MIN_FILLED_SHARE * room:
        return None
    if any("." in name for name in names):
        return None
    columns: Columns = {}
    for name in names:
        cells: list[Value | _Absence] = [item.get(name, _NONE) for item in items]
        inner = _nested_columns(cells, levels - 1)
        if inner is None:
            columns[name] = cells
        else:
            columns.update((f"{name}.{below}", inner_cells) for below, inner_cells in inner.items())
    return columns


def _nested_columns(cells: Iterable["Value | _Absence"], levels: int) -> Columns | None:
    """The columns of a column of like objects, none of them empty."""
    if not levels:
        return None
    objects: list[dict[str, Value]] = []
    for cell in cells:
        if cell is _NONE:
            objects.append({})
        elif isinstance(cell, dict) and cell:
            objects.append(cell)
        else:
            return None
    return _flattened_columns(objects, levels)


def _key_column(columns: Columns, keys: Sequence[str]) -> str | None:
    """The column that says of each entry what its key is; one must be left beside it."""
    if len(columns) < 2:
        return None
    return next((name for name, cells in columns.items() if _equals_keys(cells, keys)), None)


def _equals_keys(cells: Sequence["Value | _Absence"], keys: Sequence[str]) -> bool:
    """True if the cells are the keys, and strings like them."""
    return cells == keys and not any(isinstance(cell, Number) for cell in cells)


class _Rows:
    """A table: the rows, and the frame that says what stands in them."""

    __slots__ = ("_head", "rows")

    def __init__(self, columns: Columns, depth: int, keys: Sequence[str] = ()) -> None:
        key = _key_column(columns, keys)
        columns = {name: cells for name, cells in columns.items() if name != key}
        quoted_columns = {
            name: [
                None if isinstance(cell, _Absence) else _value_json(cell, depth) for cell in cells
            ]
            for name, cells in columns.items()
        }
        same = {
            name: first for name, cells in quoted_columns.items() if (first := _common_cell(cells))
        }
        varied = {name: cells for name, cells in quoted_columns.items() if name not in same}
        absent = _absence_mark([*quoted_columns.values(), [quoted(key) for key in keys]])
        named = "" if key is None else f'"key":{quoted(key)},'
        self._head = named + _table_head(same, varied, absent)
        filled = [[absent if c is None else c for c in cells] for cells in varied.values()]
        size = len(next(iter(quoted_columns.values())))
        joined = map(",".join, zip(*filled, strict=True)) if filled else [""] * size
        self.rows = [f"[{row}]" for row in joined]

    def with_frame(self, rows: str) -> str:
        return "{" + self._head + rows + "}"


def _common_cell(cells: Sequence[str | None]) -> str | None:
    """The cell that all rows share in this column, or None."""
    first = cells[0]
    return first if cells.count(first) == len(cells) else None


def _absence_mark(columns: Iterable[Sequence[str | None]]) -> str:
    """A string that stands in no cell where one is needed for absent ones; else ""."""
    cells = set(chain.from_iterable(columns))
    if None not in cells:
        return ""
    mark = _ABSENT
    while quoted(mark) in cells:
        mark += _ABSENT
    return quoted(mark)


def _table_head(same: Mapping[str, str], varied: Iterable[str], absent: str) -> str:
    shared = ",".join([f"{quoted(name)}:{text}" for name, text in same.items()])
    head = f'"every_row":{{{shared}}},' if same else ""
    head += '"columns":[' + ",".join(map(quoted, varied)) + "],"
    return head + (f'"absent":{absent},' if absent else "")
