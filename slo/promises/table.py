"""A table of a file of promises, read entry by entry; what is wrong goes on one list.

The text is parsed elsewhere, by whoever knows on which line things stand; a value is anything of
the shape of ``Place``, as a parsed catalog is.
"""

import re
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import msgspec

#: Entries of one kind in a file, and mistakes told of one.
MOST_ENTRIES = 1_000
MOST_MISTAKES = 100
_LONGEST = 256
NANOS = 1_000_000_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DOLLARS = re.compile(r"\d{1,9}(\.\d{1,9})?")

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")
R = TypeVar("R", bound="Named")


class Named(Protocol):
    """What an entry of an array is read into."""

    @property
    def name(self) -> str:
        """Unique among its kind; "" where it has none that is sound."""


class Place(Protocol):
    """A value of a TOML text that knows where it stands."""

    @property
    def value(self) -> Any:  # noqa: ANN401 - whatever TOML can say
        """A table as a dict of places, an array as a list of places, else what TOML says."""

    @property
    def file(self) -> str:
        """What the reader calls the text."""

    @property
    def line(self) -> int:
        """From 1."""


class Mistake(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with a file of promises.

    Attributes:
        file: Its name, as the reader knows it.
        line: From 1.
        where: The entry, such as ``budgets.assistants-month.limit``; "" for the whole file.
        what: What is wrong, as the rest of a sentence about ``where``.
        mend: What to do about it, as an imperative.
    """

    file: str
    line: int
    where: str
    what: str
    mend: str

    def __str__(self) -> str:
        """One line: ``promises.toml:7: budgets.a.limit: is 0; write 1 or more``."""
        subject = f"{self.where}: " if self.where else ""
        return f"{self.file}:{self.line}: {subject}{self.what}; {self.mend}"


class BadPromises(Exception):
    """The promises cannot be kept; carries the mistakes, by line."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: mistake.line))
        told = [str(mistake) for mistake in self.mistakes[:MOST_MISTAKES]]
        if len(self.mistakes) > MOST_MISTAKES:
            told.append(f"and {len(self.mistakes) - MOST_MISTAKES} more")
        super().__init__("\n".join(told))


class Table:
    """One table being read; what is wrong with it goes on the list of mistakes."""

    def __init__(
        self, place: Place, where: str, known: Collection[str], mistakes: list[Mistake]
    ) -> None:
        self._place, self._where, self._mistakes = place, where, mistakes
        self.entries: dict[str, Place] = {}
        if isinstance(place.value, dict):
            self.entries = place.value
        else:
            mistakes.append(mistake(place, where, f"is {spoken(place.value)}", "write a table"))
        for key in self.entries:
            if key not in known:
                self.wrong(key, "is not known", advice(key, known))

    def wrong(self, key: str, what: str, mend: str) -> None:
        """Note a mistake of this entry, or of the table where it has no such entry."""
        where = f"{self._where}.{key}" if self._where else key
        self._mistakes.append(mistake(self.entries.get(key, self._place), where, what, mend))

    def array(self, key: str) -> list[Place]:
        """The places of an array; [] if there is none."""
        value = self._typed(key, list, "write an [ array ]")
        return value or []

    def tables(self, key: str, known: Collection[str]) -> list["Table"]:
        """The tables of an array; [] if there is none."""
        return [
            Table(place, f"{self._where}.{key}[{position}]", known, self._mistakes)
            for position, place in enumerate(self.array(key))
        ]

    def flag(self, key: str, default: bool) -> bool:  # noqa: FBT001 - it is the value
        """True if it is so, or the default."""
        value = self._typed(key, bool, "write true or false")
        return default if value is None else value

    def text(self, key: str, example: str) -> str | None:
        """A string of some 256 characters at most; None if it is absent or none."""
        value = self._typed(key, str, f'write {key} = "{example}"')
        if value is not None and len(value) > _LONGEST:
            self.wrong(key, "is too long", f"write {_LONGEST} characters at most")
            return None
        return value

    def chosen(self, key: str, kind: type[E], default: E | None = None) -> E | None:
        """One of the kind's values; the default if it is absent, which is wrong where none is."""
        known = list(kind)
        if key not in self.entries and default is None:
            self.wrong(key, "is missing", f"write one of {', '.join(known)}")
        said = self.text(key, known[0])
        if said is None or said in known:
            return default if said is None else kind(said)
        self.wrong(key, f"is {spoken(said)}", advice(said, known))
        return default

    def name(self, example: str) -> str:
        """The entry's name; "" where it has none that is sound."""
        if "name" not in self.entries:
            self.wrong("name", "is missing", f'write name = "{example}", or another')
        name = self.text("name", example)
        if name is not None and not NAME.fullmatch(name):
            mend = "write up to 64 letters, digits, dots, dashes or underscores"
            self.wrong("name", f"is {spoken(name)}", mend)
        return name or ""

    def whole(self, key: str) -> int | None:
        """A whole number; None if it is absent or none, which is not noted."""
        place = self.entries.get(key)
        return None if place is None else whole(place.value)

    def _typed(self, key: str, kind: type[T], mend: str) -> T | None:
        place = self.entries.get(key)
        if place is None or isinstance(place.value, kind):
            return None if place is None else place.value
        self.wrong(key, f"is {spoken(place.value)}", mend)
        return None


def entries(
    top: Table,
    kind: str,
    known: Collection[str],
    read: Callable[[Table], R],
    mistakes: list[Mistake],
) -> tuple[R, ...]:
    """The entries of an array of tables, in order; no two of one name.

    Args:
        top: The whole file.
        kind: The array's name, in the plural, such as ``budgets``.
        known: What an entry may say.
        read: An entry of a table, with stand-ins where it has mistakes.
        mistakes: Where what is wrong goes.
    """
    places = top.array(kind)
    if len(places) > MOST_ENTRIES:
        mistakes.append(mistake(places[MOST_ENTRIES], kind, "are over 1,000", "merge some"))
    named: set[str] = set()
    found = []
    for position, place in enumerate(places[:MOST_ENTRIES]):
        table = Table(place, _title(kind, place, position), known, mistakes)
        entry = read(table)
        if entry.name in named:
            what = f"names a second {kind.removesuffix('s')}"
            table.wrong("name", what, "give each a name of its own")
        elif entry.name:
            named.add(entry.name)
        found.append(entry)
    return tuple(found)


def dollars(value: object) -> int | None:
    """Nano-dollars of a decimal string or a whole number; None of anything else."""
    units = whole(value)
    if units is not None:
        return units * NANOS
    if not isinstance(value, str) or not DOLLARS.fullmatch(value):
        return None
    return int(Fraction(value) * NANOS)


def whole(value: object) -> int | None:
    """A whole number; None of anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _title(kind: str, place: Place, position: int) -> str:
    """How mistakes name an entry: by its name if it has a sound one, else by its position."""
    said = place.value.get("name") if isinstance(place.value, dict) else None
    name = said.value if said is not None else None
    is_sound = isinstance(name, str) and NAME.fullmatch(name)
    return f"{kind}.{name}" if is_sound else f"{kind}[{position}]"


def mistake(place: Place, where: str, what: str, mend: str) -> Mistake:
    """One thing wrong, where it stands."""
    return Mistake(file=place.file, line=place.line, where=where, what=what, mend=mend)


def advice(said: str, known: Collection[str]) -> str:
    """What to write in place of what nobody knows."""
    close = get_close_matches(said, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are: {', '.join(known)}"


def spoken(value: object) -> str:
    """What a value is, in the words of someone who writes TOML, and no longer than a line."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "an array"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    text = f"{text[:40]}…" if len(text) > 40 else text
    return f'the string "{text}"' if isinstance(value, str) else text
