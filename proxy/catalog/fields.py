"""Checked reading of one table: right types out, every mistake on the list."""

from collections.abc import Collection, Iterable
from datetime import date, datetime
from difflib import get_close_matches
from typing import TypeVar

from proxy.catalog.problems import Problem
from proxy.catalog.source import Node

T = TypeVar("T")

_TYPES = {
    str: 'write a "string"',
    bool: "write true or false",
    int: "write a whole number of 0 or more",
    dict: "write a { table }",
    list: "write an [ array ]",
    date: "write a day, such as 2026-12-01",
}


class TableFields:
    """One table being read; what is wrong with it goes on ``problems``, which callers share."""

    def __init__(self, node: Node, known: Collection[str], problems: list[Problem]) -> None:
        self.node = node
        self.problems = problems
        self.nodes: dict[str, Node] = checked_value(node, dict, problems) or {}
        for key, entry in self.nodes.items():
            if key not in known:
                problems.append(entry.problem("is not known", suggest_name(key, known)))

    def get(self, key: str, kind: type[T]) -> T | None:
        """The value of this key; None if it is absent or of another type."""
        node = self.nodes.get(key)
        return None if node is None else checked_value(node, kind, self.problems)

    def text(self, key: str) -> str:
        """The string of this key; "" if there is none."""
        return self.get(key, str) or ""

    def elements(self, key: str, named_by: str = "") -> list[Node]:
        """The elements of the array of this key; [] if there is none.

        Args:
            key: Which.
            named_by: The field in which an element says its name, for who writes a table by name.
        """
        node = self.nodes.get(key)
        if named_by and node is not None and isinstance(node.value, dict):
            name = next(iter(node.value), "NAME")
            fix = f'write [[{key}]] before each, and {named_by} = "{name}" in it'
            self.problems.append(node.problem("is a table", fix))
            return []
        return self.get(key, list) or []

    def entries(self, key: str) -> dict[str, Node]:
        """The entries of the table of this key; {} if there is none."""
        return self.get(key, dict) or {}

    def choice(self, key: str, known: Collection[str]) -> str:
        """The string of this key, one of those known; "" if it is absent or another."""
        node = self.nodes.get(key)
        return "" if node is None else checked_choice(node, known, self.problems)


def checked_value(node: Node, kind: type[T], problems: list[Problem]) -> T | None:
    """The node's value if it is of this type, whole numbers not negative; else None."""
    value = node.value
    # To Python, True is an int and a time of day on a date is a date; to a reader they are not.
    is_other = isinstance(value, bool | datetime) and type(value) is not kind
    is_negative = isinstance(value, int) and value < 0
    if is_other or is_negative or not isinstance(value, kind):
        problems.append(node.problem(f"is {describe_value(value)}", _TYPES[kind]))
        return None
    return value


def checked_choice(node: Node, known: Collection[str], problems: list[Problem]) -> str:
    """The node's string if it is one of those known; else ""."""
    value = checked_value(node, str, problems)
    if value is None or value in known:
        return value or ""
    problems.append(
        node.problem(f'names "{value}", which is not known', suggest_name(value, known))
    )
    return ""


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Suggest the name that may have been meant, or list those there are."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are: {', '.join(known) or 'none'}"


def describe_value(value: object) -> str:
    """Describe a value's type in TOML's words."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return f'the string "{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
