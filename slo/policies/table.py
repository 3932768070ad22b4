"""Reads a table of a policies file entry by entry, and collects its mistakes.

The text is parsed elsewhere, by whoever knows on which line things stand; a value is anything of
the shape of ``LocatedValue``, as a parsed catalog is.
"""

import re
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import msgspec

#: Entries of one kind in a file, and mistakes shown of one file.
MAX_ENTRIES = 1_000
MAX_MISTAKES_SHOWN = 100
_MAX_TEXT_CHARS = 256
NANOS_PER_DOLLAR = 1_000_000_000
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DOLLARS_PATTERN = re.compile(r"\d{1,9}(\.\d{1,9})?")

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")
R = TypeVar("R", bound="NamedEntry")


class NamedEntry(Protocol):
    """A value that an entry of an array is read into."""

    @property
    def name(self) -> str:
        """Unique among its kind; "" where it has none that is sound."""


class LocatedValue(Protocol):
    """A value of a TOML text that knows where it stands."""

    @property
    def value(self) -> Any:  # noqa: ANN401 - whatever TOML can say
        """A table as a dict of places, an array as a list of places, else what TOML says."""

    @property
    def file(self) -> str:
        """The file's name, as the reader knows it."""

    @property
    def line(self) -> int:
        """From 1."""


class PolicyMistake(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with a policies file.

    Attributes:
        file: Its name, as the reader knows it.
        line: From 1.
        where: The entry, such as ``budgets.assistants-month.limit``; "" for the whole file.
        what: Defect, as the rest of a sentence about ``where``.
        fix: Fix, as an imperative sentence.
    """

    file: str
    line: int
    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        """One line: ``policies.toml:7: budgets.a.limit: is 0; write 1 or more``."""
        subject = f"{self.where}: " if self.where else ""
        return f"{self.file}:{self.line}: {subject}{self.what}; {self.fix}"


class InvalidPolicies(Exception):
    """The policies file is invalid; carries the mistakes, by line."""

    def __init__(self, mistakes: Iterable[PolicyMistake]) -> None:
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: mistake.line))
        told = [str(mistake) for mistake in self.mistakes[:MAX_MISTAKES_SHOWN]]
        if len(self.mistakes) > MAX_MISTAKES_SHOWN:
            told.append(f"and {len(self.mistakes) - MAX_MISTAKES_SHOWN} more")
        super().__init__("\n".join(told))


class TableReader:
    """One table being read; its mistakes go on a list."""

    def __init__(
        self, place: LocatedValue, where: str, known: Collection[str], mistakes: list[PolicyMistake]
    ) -> None:
        self._place, self._where, self._mistakes = place, where, mistakes
        self.entries: dict[str, LocatedValue] = {}
        if isinstance(place.value, dict):
            self.entries = place.value
        else:
            mistakes.append(
                make_mistake(place, where, f"is {describe_value(place.value)}", "write a table")
            )
        for key in self.entries:
            if key not in known:
                self.add_mistake(key, "is not known", suggestion(key, known))

    def add_mistake(self, key: str, what: str, fix: str) -> None:
        """Note a mistake of this entry, or of the table where it has no such entry."""
        where = f"{self._where}.{key}" if self._where else key
        self._mistakes.append(make_mistake(self.entries.get(key, self._place), where, what, fix))

    def array(self, key: str) -> list[LocatedValue]:
        """The places of an array; [] if there is none."""
        value = self._value_of_type(key, list, "write an [ array ]")
        return value or []

    def tables(self, key: str, known: Collection[str]) -> list["TableReader"]:
        """The tables of an array; [] if there is none."""
        return [
            TableReader(place, f"{self._where}.{key}[{position}]", known, self._mistakes)
            for position, place in enumerate(self.array(key))
        ]

    def flag(self, key: str, default: bool) -> bool:  # noqa: FBT001 - it is the value
        """True if it is so, or the default."""
        value = self._value_of_type(key, bool, "write true or false")
        return default if value is None else value

    def text(self, key: str, example: str) -> str | None:
        """A string of some 256 characters at most; None if it is absent or none."""
        value = self._value_of_type(key, str, f'write {key} = "{example}"')
        if value is not None and len(value) > _MAX_TEXT_CHARS:
            self.add_mistake(key, "is too long", f"write {_MAX_TEXT_CHARS} characters at most")
            return None
        return value

    def choice(self, key: str, kind: type[E], default: E | None = None) -> E | None:
        """One of the kind's values; the default if it is absent, which is wrong where none is."""
        known = list(kind)
        if key not in self.entries and default is None:
            self.add_mistake(key, "is missing", f"write one of {', '.join(known)}")
        said = self.text(key, known[0])
        if said is None or said in known:
            return default if said is None else kind(said)
        self.add_mistake(key, f"is {describe_value(said)}", suggestion(said, known))
        return default

    def name(self, example: str) -> str:
        """The entry's name; "" where it has none that is sound."""
        if "name" not in self.entries:
            self.add_mistake("name", "is missing", f'write name = "{example}", or another')
        name = self.text("name", example)
        if name is not None and not NAME_PATTERN.fullmatch(name):
            fix = "write up to 64 letters, digits, dots, dashes or underscores"
            self.add_mistake("name", f"is {describe_value(name)}", fix)
        return name or ""

    def whole_number(self, key: str) -> int | None:
        """A whole number; None if it is absent or none, which is not noted."""
        place = self.entries.get(key)
        return None if place is None else whole_number(place.value)

    def _value_of_type(self, key: str, kind: type[T], fix: str) -> T | None:
        place = self.entries.get(key)
        if place is None or isinstance(place.value, kind):
            return None if place is None else place.value
        self.add_mistake(key, f"is {describe_value(place.value)}", fix)
        return None


def read_entries(
    top: TableReader,
    kind: str,
    known: Collection[str],
    read: Callable[[TableReader], R],
    mistakes: list[PolicyMistake],
) -> tuple[R, ...]:
    """The entries of an array of tables, in order; no two of one name.

    Args:
        top: The whole file.
        kind: The array's name, in the plural, such as ``budgets``.
        known: Keys that an entry may have.
        read: An entry of a table, with stand-ins where it has mistakes.
        mistakes: List that mistakes are added to.
    """
    places = top.array(kind)
    if len(places) > MAX_ENTRIES:
        mistakes.append(make_mistake(places[MAX_ENTRIES], kind, "are over 1,000", "merge some"))
    named: set[str] = set()
    found = []
    for position, place in enumerate(places[:MAX_ENTRIES]):
        table = TableReader(place, _entry_title(kind, place, position), known, mistakes)
        entry = read(table)
        if entry.name in named:
            what = f"names a second {kind.removesuffix('s')}"
            table.add_mistake("name", what, "give each a name of its own")
        elif entry.name:
            named.add(entry.name)
        found.append(entry)
    return tuple(found)


def nanos_of_dollars(value: object) -> int | None:
    """Nano-dollars of a decimal string or a whole number; None of anything else."""
    units = whole_number(value)
    if units is not None:
        return units * NANOS_PER_DOLLAR
    if not isinstance(value, str) or not DOLLARS_PATTERN.fullmatch(value):
        return None
    return int(Fraction(value) * NANOS_PER_DOLLAR)


def whole_number(value: object) -> int | None:
    """A whole number; None of anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _entry_title(kind: str, place: LocatedValue, position: int) -> str:
    """The entry's title in mistakes: with its name if that is valid, else with its position."""
    said = place.value.get("name") if isinstance(place.value, dict) else None
    name = said.value if said is not None else None
    is_sound = isinstance(name, str) and NAME_PATTERN.fullmatch(name)
    return f"{kind}.{name}" if is_sound else f"{kind}[{position}]"


def make_mistake(place: LocatedValue, where: str, what: str, fix: str) -> PolicyMistake:
    """A mistake with the file and line where it stands."""
    return PolicyMistake(file=place.file, line=place.line, where=where, what=what, fix=fix)


def suggestion(said: str, known: Collection[str]) -> str:
    """A suggestion in place of an unknown value."""
    close = get_close_matches(said, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are: {', '.join(known)}"


def describe_value(value: object) -> str:
    """A description of a TOML value for people, no longer than a line."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "an array"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    text = f"{text[:40]}…" if len(text) > 40 else text
    return f'the string "{text}"' if isinstance(value, str) else text
