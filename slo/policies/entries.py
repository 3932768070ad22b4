"""Reads the named entries of a policies file, whose names are unique among their kind."""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol, TypeVar

from slo.toml.table_reader import TableReader, describe_value

#: Entries of one kind in a file.
MAX_ENTRIES = 1_000
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

R = TypeVar("R", bound="NamedEntry")


class NamedEntry(Protocol):
    """A value that an entry of an array is read into."""

    @property
    def name(self) -> str:
        """Unique among its kind; "" where it has none that is sound."""


def read_entries(
    top: TableReader, kind: str, keys: Collection[str], read: Callable[[TableReader], R]
) -> tuple[R, ...]:
    """The entries of an array of tables, in order; no two of one name.

    Args:
        top: The whole file.
        kind: The array's name, in the plural, such as ``budgets``.
        keys: Fields that an entry may have.
        read: An entry of a table, with stand-ins where it has problems.
    """
    nodes = top.elements(kind)
    if len(nodes) > MAX_ENTRIES:
        excess = replace(nodes[MAX_ENTRIES], name=kind)
        top.problems.append(excess.problem("are over 1,000", "merge some"))
    named: set[str] = set()
    entries = []
    for node in nodes[:MAX_ENTRIES]:
        table = TableReader(node, keys, top.problems)
        entry = read(table)
        if entry.name in named:
            what = f"names a second {kind.removesuffix('s')}"
            table.add_problem("name", what, "give each a name of its own")
        elif entry.name:
            named.add(entry.name)
        entries.append(entry)
    return tuple(entries)


def entry_name(table: TableReader, example: str) -> str:
    """The entry's name; "" where it has none that is sound."""
    if "name" not in table.nodes:
        table.add_problem("name", "is missing", f'write name = "{example}", or another')
    name = table.text("name", example)
    if name is not None and not NAME_PATTERN.fullmatch(name):
        fix = "write up to 64 letters, digits, dots, dashes or underscores"
        table.add_problem("name", f"is {describe_value(name)}", fix)
    return name or ""
