"""A file of promises, read: tables in, budgets out, every mistake with its line and its mend.

The text is parsed elsewhere, by whoever knows on which line things stand; a value is anything of
the shape of ``Place``, as a parsed catalog is. A table of the file::

    [[budgets]]
    name = "assistants-month"
    scope = "team"           # organization, team, key, feature, user, label:NAME
    of = "assistants"        # "*", the default: every team has its own; "": calls that name none
    unit = "usd"             # usd, tokens, requests
    window = "month"         # minute, hour, day, month
    limit = "500"            # dollars, as a "string", never rounded; tokens and requests are whole
    hard = true              # the default; false only counts and alerts
    hold = "p95"             # the default; or worst
    on_loss = "closed"       # open, local_quota, closed; closed where hard, else open
    alerts = [50, 80, 95]    # the default
"""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import msgspec

from slo.budget import EVERY, LABEL, SCOPES, Budget, Hold, OnLoss, Unit
from slo.reservations import MOST
from slo.window import Window

#: Budgets in one file, and mistakes told of one.
MOST_BUDGETS = 1_000
MOST_MISTAKES = 100
_MOST_ALERTS = 10
_LONGEST = 256
_NANOS = 1_000_000_000
_KEYS = (
    "name", "scope", "of", "unit", "window", "limit", "hard", "hold", "on_loss", "alerts",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DOLLARS = re.compile(r"\d{1,9}(\.\d{1,9})?")

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


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


class Promises(msgspec.Struct, frozen=True, kw_only=True):
    """What teams are promised, in the order it was written."""

    budgets: tuple[Budget, ...] = ()


def read(top: Place) -> Promises:
    """The promises of a file.

    Args:
        top: The whole text, a table.

    Raises:
        BadPromises: With every mistake found.
    """
    mistakes: list[Mistake] = []
    entries = _Table(top, "", ("budgets",), mistakes).array("budgets")
    if len(entries) > MOST_BUDGETS:
        mistakes.append(_mistake(entries[MOST_BUDGETS], "budgets", "are over 1,000", "merge some"))
    named: set[str] = set()
    budgets = []
    for position, entry in enumerate(entries[:MOST_BUDGETS]):
        table = _Table(entry, _title(entry, position), _KEYS, mistakes)
        budget = _budget(table)
        if budget.name in named:
            table.wrong("name", "names a second budget", "give each a name of its own")
        elif budget.name:
            named.add(budget.name)
        budgets.append(budget)
    if mistakes:
        raise BadPromises(mistakes)
    return Promises(budgets=tuple(budgets))


class _Table:
    """One table being read; what is wrong with it goes on the list of mistakes."""

    def __init__(
        self, place: Place, where: str, known: Collection[str], mistakes: list[Mistake]
    ) -> None:
        self._place, self._where, self._mistakes = place, where, mistakes
        self.entries: dict[str, Place] = {}
        if isinstance(place.value, dict):
            self.entries = place.value
        else:
            mistakes.append(_mistake(place, where, f"is {_spoken(place.value)}", "write a table"))
        for key in self.entries:
            if key not in known:
                self.wrong(key, "is not known", _advice(key, known))

    def wrong(self, key: str, what: str, mend: str) -> None:
        """Note a mistake of this entry, or of the table where it has no such entry."""
        where = f"{self._where}.{key}" if self._where else key
        self._mistakes.append(_mistake(self.entries.get(key, self._place), where, what, mend))

    def array(self, key: str) -> list[Place]:
        """The places of an array; [] if there is none."""
        value = self._typed(key, list, "write an [ array ]")
        return value or []

    def flag(self, key: str, default: bool) -> bool:  # noqa: FBT001 - it is the value
        """Whether it is so, or the default."""
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
        self.wrong(key, f"is {_spoken(said)}", _advice(said, known))
        return default

    def _typed(self, key: str, kind: type[T], mend: str) -> T | None:
        place = self.entries.get(key)
        if place is None or isinstance(place.value, kind):
            return None if place is None else place.value
        self.wrong(key, f"is {_spoken(place.value)}", mend)
        return None


def _budget(table: _Table) -> Budget:
    """The budget of a table, with stand-ins where it has mistakes."""
    scope = _scope(table)
    unit = table.chosen("unit", Unit)
    hard = table.flag("hard", default=True)
    return Budget(
        name=_name(table),
        scope=scope,
        of=_of(table, scope),
        unit=unit or Unit.REQUESTS,
        window=table.chosen("window", Window) or Window.MONTH,
        limit=_limit(table, unit),
        hard=hard,
        hold=_hold(table, unit),
        on_loss=_on_loss(table, hard=hard),
        alerts=_alerts(table),
    )


def _name(table: _Table) -> str:
    if "name" not in table.entries:
        table.wrong("name", "is missing", 'write name = "assistants-month", or another')
    name = table.text("name", "assistants-month")
    if name is not None and not _NAME.fullmatch(name):
        mend = "write up to 64 letters, digits, dots, dashes or underscores"
        table.wrong("name", f"is {_spoken(name)}", mend)
    return name or ""


def _scope(table: _Table) -> str:
    known = (*SCOPES, f"{LABEL}NAME")
    if "scope" not in table.entries:
        table.wrong("scope", "is missing", f"write one of {', '.join(known)}")
    scope = table.text("scope", "team")
    if scope is None or scope in SCOPES:
        return scope or ""
    if not scope.startswith(LABEL):
        table.wrong("scope", f"is {_spoken(scope)}", _advice(scope, known))
    elif not _NAME.fullmatch(scope.removeprefix(LABEL)):
        table.wrong("scope", f"is {_spoken(scope)}", f'name the label: "{LABEL}project"')
    return scope


def _of(table: _Table, scope: str) -> str:
    of = table.text("of", EVERY)
    if of is None:
        return EVERY
    if scope == "organization" and of != EVERY:
        table.wrong("of", "picks one organization, and there is one", "leave it out")
    if scope in {"team", "key"} and not of:
        table.wrong("of", f"is empty, and every call has a {scope}", 'write a name, or "*"')
    return of


def _limit(table: _Table, unit: Unit | None) -> int:
    """In nano-dollars, tokens or requests; 1 where it is wrong, or its unit is."""
    if "limit" not in table.entries:
        table.wrong("limit", "is missing", 'write limit = "500" for dollars, 500 for all else')
        return 1
    if unit is None:
        return 1
    value = table.entries["limit"].value
    exact = _dollars(value) if unit is Unit.USD else _whole(value)
    if exact is None:
        table.wrong("limit", f"is {_spoken(value)}", _limit_mend(value, unit))
    elif not 1 <= exact <= MOST:
        most = f"{MOST // _NANOS:,} dollars" if unit is Unit.USD else f"{MOST:,}"
        table.wrong("limit", f"is {_spoken(value)}", f"write more than 0, and at most {most}")
    return exact or 1


def _dollars(value: object) -> int | None:
    """Nano-dollars of a decimal string or a whole number; None of anything else."""
    whole = _whole(value)
    if whole is not None:
        return whole * _NANOS
    if not isinstance(value, str) or not _DOLLARS.fullmatch(value):
        return None
    return int(Fraction(value) * _NANOS)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _limit_mend(value: object, unit: Unit) -> str:
    if unit is not Unit.USD:
        return "write a whole number"
    plain = re.sub(r"[$_,\s]", "", str(value))
    example = plain if _DOLLARS.fullmatch(plain) else "500"
    return f'write dollars of at most 9 decimals as a string: "{example}"'


def _hold(table: _Table, unit: Unit | None) -> Hold:
    if unit is Unit.REQUESTS and "hold" in table.entries:
        table.wrong("hold", "says nothing of requests, which count 1 each", "leave it out")
    return table.chosen("hold", Hold, Hold.P95) or Hold.P95


def _on_loss(table: _Table, *, hard: bool) -> OnLoss:
    default = OnLoss.CLOSED if hard else OnLoss.OPEN
    said = table.chosen("on_loss", OnLoss, default) or default
    if not hard and said is not OnLoss.OPEN:
        mend = "write hard = true, or leave on_loss out"
        table.wrong("on_loss", "refuses calls, and the budget is not hard", mend)
    return said


def _alerts(table: _Table) -> tuple[int, ...]:
    if "alerts" not in table.entries:
        return (50, 80, 95)
    said = [_whole(place.value) for place in table.array("alerts")]
    percents = [percent for percent in said if percent is not None and 1 <= percent <= 100]
    is_sound = len(percents) == len(said) <= _MOST_ALERTS and percents == sorted(set(percents))
    if not is_sound:
        mend = f"write up to {_MOST_ALERTS} percents from 1 to 100, ascending: [50, 80, 95]"
        table.wrong("alerts", "is no list of percents", mend)
    return tuple(percents)


def _title(entry: Place, position: int) -> str:
    """How mistakes name a budget: by its name if it has a sound one, else by its position."""
    place = entry.value.get("name") if isinstance(entry.value, dict) else None
    name = place.value if place is not None else None
    is_sound = isinstance(name, str) and _NAME.fullmatch(name)
    return f"budgets.{name}" if is_sound else f"budgets[{position}]"


def _mistake(place: Place, where: str, what: str, mend: str) -> Mistake:
    return Mistake(file=place.file, line=place.line, where=where, what=what, mend=mend)


def _advice(said: str, known: Collection[str]) -> str:
    close = get_close_matches(said, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are: {', '.join(known)}"


def _spoken(value: object) -> str:
    """What a value is, in the words of someone who writes TOML, and no longer than a line."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "an array"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    text = f"{text[:40]}…" if len(text) > 40 else text
    return f'the string "{text}"' if isinstance(value, str) else text
