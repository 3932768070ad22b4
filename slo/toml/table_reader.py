"""Checked reading of one table: right types out, every problem on the list."""

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from slo.toml.nodes import Node
from slo.toml.problems import Problem

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_MAX_TEXT_CHARS = 256
_MAX_CHARS_SHOWN = 40
_TYPES = {
    str: 'write a "string"',
    bool: "write true or false",
    int: "write a whole number of 0 or more",
    dict: "write a { table }",
    list: "write an [ array ]",
    date: "write a day, such as 2026-12-01",
}


class TableReader:
    """One table being read.

    Attributes:
        nodes: Its entries by key, unknown keys included.
        problems: Gets the problems that are found; shared with the caller.
    """

    def __init__(self, node: Node, keys: Collection[str], problems: list[Problem]) -> None:
        self.node = node
        self.problems = problems
        self.nodes: dict[str, Node] = checked_value(node, dict, problems) or {}
        for key in self.nodes:
            if key not in keys:
                self.add_problem(key, "is not known", suggest_name(key, keys))

    def add_problem(self, key: str, what: str, fix: str, *, warning: bool = False) -> None:
        """Note a problem of this key's value, or of the table's line where the key is absent."""
        node = self.nodes.get(key) or self.node.absent_entry(key)
        self.problems.append(node.problem(what, fix, warning=warning))

    def get(self, key: str, kind: type[T]) -> T | None:
        """The value of this key; None if it is absent or of another type."""
        node = self.nodes.get(key)
        return None if node is None else checked_value(node, kind, self.problems)

    def text(self, key: str, example: str = "") -> str | None:
        """The string of this key, of 256 characters at most; None if it is absent or none."""
        node = self.nodes.get(key)
        if node is None:
            return None
        fix = f'write {key} = "{example}"' if example else None
        value = checked_value(node, str, self.problems, fix)
        if value is not None and len(value) > _MAX_TEXT_CHARS:
            self.add_problem(key, "is too long", f"write {_MAX_TEXT_CHARS} characters at most")
            return None
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false as this key says; the default if it is absent or neither."""
        value = self.get(key, bool)
        return default if value is None else value

    def elements(self, key: str, named_by: str = "") -> list[Node]:
        """The elements of the array of this key; [] if there is none.

        Args:
            named_by: The field with an element's name, for the fix of a table in the array's place.
        """
        node = self.nodes.get(key)
        if named_by and node is not None and isinstance(node.value, dict):
            name = _preview(next(iter(node.value), "NAME"))
            fix = f'write [[{key}]] before each, and {named_by} = "{name}" in it'
            self.problems.append(node.problem("is a table", fix))
            return []
        return self.get(key, list) or []

    def entries(self, key: str) -> dict[str, Node]:
        """The entries of the table of this key; {} if there is none."""
        return self.get(key, dict) or {}

    def tables(self, key: str, keys: Collection[str]) -> list["TableReader"]:
        """The tables of the array of this key; [] if there is none."""
        return [TableReader(node, keys, self.problems) for node in self.elements(key)]

    def choice(self, key: str, choices: Collection[str], example: str = "") -> str:
        """The string of this key, one of those known; "" if it is absent or another."""
        name = self.text(key, example)
        return "" if name is None else _known_name(name, self.nodes[key], choices, self.problems)

    def member(self, key: str, kind: type[E], default: E | None = None) -> E | None:
        """A member of the enumeration; the default if it is absent. Without one it is required."""
        names = [str(member) for member in kind]
        if key not in self.nodes and default is None:
            self.add_problem(key, "is missing", f"write one of {', '.join(names)}")
        return kind(name) if (name := self.choice(key, names, names[0])) else default


def checked_value(
    node: Node, kind: type[T], problems: list[Problem], fix: str | None = None
) -> T | None:
    """The node's value if it is of this type, whole numbers not negative; else None."""
    value = node.value
    # To Python, True is an int and a time of day on a date is a date; to a reader they are not.
    is_other = isinstance(value, bool | datetime) and type(value) is not kind
    is_negative = isinstance(value, int) and value < 0
    if is_other or is_negative or not isinstance(value, kind):
        problems.append(node.problem(f"is {describe_value(value)}", fix or _TYPES[kind]))
        return None
    return value


def checked_choice(node: Node, choices: Collection[str], problems: list[Problem]) -> str:
    """The node's string if it is one of those known; else ""."""
    fix = f"write one of {', '.join(_in_order(choices))}"
    name = checked_value(node, str, problems, fix)
    return "" if name is None else _known_name(name, node, choices, problems)


def _known_name(name: str, node: Node, choices: Collection[str], problems: list[Problem]) -> str:
    if name in choices:
        return name
    what = f'names "{_preview(name)}", which is not known'
    problems.append(node.problem(what, suggest_name(name, choices)))
    return ""


def suggest_name(name: str, choices: Iterable[str]) -> str:
    """Suggest the name that may have been meant, or list those there are."""
    names = _in_order(choices)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"known are: {', '.join(names) or 'none'}"


def _in_order(names: Iterable[str]) -> list[str]:
    """The names in an order that does not change from run to run."""
    return sorted(names) if isinstance(names, AbstractSet) else list(names)


def describe_value(value: object) -> str:
    """Describe a value in TOML's words, no longer than a line."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return f'the string "{_preview(value)}"'
    if isinstance(value, bool):
        return str(value).lower()
    return _preview(str(value))


def _preview(text: str) -> str:
    """The beginning of a text, as much as a message shows of it."""
    return f"{text[:_MAX_CHARS_SHOWN]}…" if len(text) > _MAX_CHARS_SHOWN else text
