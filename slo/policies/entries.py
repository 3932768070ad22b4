"""Reads the named entries of a policies file, and the fields that several kinds of them have."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Final, Protocol, TypeVar

from slo.budgets.budget import EVERY, UnpricedPolicy
from slo.budgets.counter import MAX_AMOUNT
from slo.decimals import DOLLARS_PATTERN, NANOS_PER_DOLLAR, nanos_of_dollars, normalize_decimal
from slo.duration import parse_duration
from slo.toml.fields import Field, keys
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
    top: TableReader, kind: str, fields: Iterable[Field], read: Callable[[TableReader], R]
) -> tuple[R, ...]:
    """The entries of an array of tables, in order; no two of one name.

    Args:
        kind: The array's name, in the plural, such as ``budgets``.
        read: An entry of a table, with stand-ins where it has problems.
    """
    nodes = top.elements(kind)
    if len(nodes) > MAX_ENTRIES:
        excess = replace(nodes[MAX_ENTRIES], name=kind)
        top.problems.append(excess.problem("are over 1,000", "merge some"))
    named: set[str] = set()
    entries = []
    for node in nodes[:MAX_ENTRIES]:
        table = TableReader(node, keys(fields), top.problems)
        entry = read(table)
        if entry.name in named:
            what = f"names a second {kind.removesuffix('s')}"
            table.add_problem("name", what, "give each a name of its own")
        elif entry.name:
            named.add(entry.name)
        entries.append(entry)
    return tuple(entries)


def share(table: TableReader, field: Field) -> float | None:
    """A percentage from 0.1 % to 30 %, such as ``"1%"``."""
    value = table.nodes[field.key].value
    part = None
    if isinstance(value, str) and value.endswith("%"):
        try:
            part = float(Decimal(value[:-1]) / 100)
        except ArithmeticError:
            part = None
    if part is None or not 0.001 <= part <= 0.3:
        fix = f'write 0.1 % to 30 %, such as "{field.example}"'
        table.add_problem(field.key, f"is {describe_value(value)}", fix)
        return None
    return part


def name_field(example: str) -> Field:
    """The field in which an entry says its name."""
    meaning = "unique among its kind: 1 to 64 letters, digits, `.`, `_` or `-`"
    missing = f'write name = "{example}", or another'
    return Field("name", _name, "", meaning, missing=missing, example=example)


def _name(table: TableReader, field: Field) -> str | None:
    name = table.text(field.key, field.example)
    if name is not None and not NAME_PATTERN.fullmatch(name):
        fix = "write up to 64 letters, digits, dots, dashes or underscores"
        table.add_problem(field.key, f"is {describe_value(name)}", fix)
    return name


def _team(table: TableReader, field: Field) -> str | None:
    team = table.text(field.key, EVERY)
    if team == "":
        table.add_problem("team", "is empty, and every call has a team", 'write a name, or "*"')
    return team


def dollars(table: TableReader, field: Field) -> int | None:
    """An amount in nano-dollars, from 1 to what reservations count."""
    value = table.nodes[field.key].value
    nanos = nanos_of_dollars(value)
    if nanos is None:
        decimal = normalize_decimal(value)
        example = decimal if DOLLARS_PATTERN.fullmatch(decimal) else field.example
        fix = f'write dollars of at most 9 decimals as a string: "{example}"'
        table.add_problem(field.key, f"is {describe_value(value)}", fix)
    elif not 1 <= nanos <= MAX_AMOUNT:
        fix = f"write more than 0, and at most {MAX_AMOUNT // NANOS_PER_DOLLAR:,} dollars"
        table.add_problem(field.key, f"is {describe_value(value)}", fix)
    return nanos


def duration(table: TableReader, field: Field) -> float | None:
    """The seconds of a duration such as ``30m``."""
    value = table.nodes[field.key].value
    seconds = parse_duration(value) if isinstance(value, str) else None
    if seconds is None:
        fix = f'write a number and ms, s, m, h or d: {field.key} = "{field.example}"'
        table.add_problem(field.key, f"is {describe_value(value)}", fix)
    return seconds


TEAM: Final = Field("team", _team, EVERY, 'a team\'s name; `"*"`: every team')
FEATURE: Final = Field(
    "feature", str, EVERY, 'a feature; `"*"`: every one; `""`: calls that name none', example=EVERY
)
UNPRICED: Final = Field(
    "unpriced",
    UnpricedPolicy,
    UnpricedPolicy.OWN,
    "calls of unknown price: `refuse`, `allow`, `own`; of hard budgets in dollars, and ceilings",
)
