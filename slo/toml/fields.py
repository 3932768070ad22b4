"""Describes each field of a table once, for its reader and for the reference."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from slo.toml.table_reader import TableReader, checked_choice
from slo.toml.values import toml_value

#: Type of a field's value, or a reader of it that is called where the table has it.
Kind: TypeAlias = "type | Callable[[TableReader, Field], Any]"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table.

    Attributes:
        default: Its value where it is absent or wrong.
        meaning: Its values and their unit, in Markdown.
        shown: The default in the reference, where it is not ``default`` itself.
        missing: The fix where it is absent; "" where it may be.
        example: A value for the fixes.
    """

    key: str
    kind: Kind
    default: Any
    meaning: str
    shown: str = ""
    missing: str = ""
    example: str = ""

    def read(self, table: TableReader) -> Any:  # noqa: ANN401 - whatever the field holds
        """The field's value; the default where the table lacks it or holds a wrong one."""
        if self.key not in table.nodes:
            if self.missing:
                table.add_problem(self.key, "is missing", self.missing)
            return self.default
        if not isinstance(self.kind, type):
            value = self.kind(table, self)
        elif issubclass(self.kind, StrEnum):
            value = table.member(self.key, self.kind, self.default)
        elif self.kind is str:
            value = table.text(self.key, self.example)
        else:
            value = table.get(self.key, self.kind)
        return self.default if value is None else value

    @property
    def default_text(self) -> str:
        """The default in Markdown, as a reference shows it."""
        return self.shown or ("required" if self.missing else _shown_value(self.default))

    @property
    def reference_row(self) -> str:
        """The field's row in a reference: key, default and meaning."""
        return f"| `{self.key}` | {self.default_text} | {self.meaning} |"


def read_fields(table: TableReader, fields: Iterable[Field]) -> dict[str, Any]:
    """The values of a table by key, with every problem noted."""
    return {field.key: field.read(table) for field in fields}


def keys(fields: Iterable[Field]) -> tuple[str, ...]:
    """The keys that a table with these fields may have."""
    return tuple(field.key for field in fields)


def reference(fields: Iterable[Field]) -> str:
    """The fields as a table in Markdown."""
    rows = (field.reference_row for field in fields)
    return "\n".join(["| Field | Default | Meaning |", "|---|---|---|", *rows, ""])


def choice_of(names: Collection[str]) -> Callable[[TableReader, Field], str | None]:
    """Reads one of these names."""
    return lambda table, field: table.choice(field.key, names) or None


def list_of(names: Collection[str]) -> Callable[[TableReader, Field], tuple[str, ...]]:
    """Reads an array of these names, each once."""

    def read(table: TableReader, field: Field) -> tuple[str, ...]:
        nodes = table.elements(field.key)
        chosen = (checked_choice(node, names, table.problems) for node in nodes)
        return tuple(dict.fromkeys(filter(None, chosen)))

    return read


def set_of(names: Collection[str]) -> Callable[[TableReader, Field], frozenset[str]]:
    """Reads an array of these names as a set."""
    read = list_of(names)
    return lambda table, field: frozenset(read(table, field))


def flag(key: str, meaning: str, *, default: bool) -> Field:
    """A field that is true or false."""
    return Field(key, bool, default, meaning)


def one_of(kind: type[StrEnum]) -> str:
    """The fix where a member of an enumeration is missing."""
    return f"write one of {', '.join(kind)}"


def _shown_value(value: object) -> str:
    is_empty = value is None or (value != 0 and not value) or value == ""
    return "none" if is_empty else f"`{toml_value(value)}`"
