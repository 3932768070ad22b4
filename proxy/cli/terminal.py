"""The terminal of a command: its output, its clock, its store."""

import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from getpass import getuser
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import msgspec
import typer
from rich.console import Console, ConsoleRenderable
from rich.table import Column, Table

if TYPE_CHECKING:  # it takes longer to import than most commands take to run
    from proxy.store.sql.access.teams import Team
    from proxy.store.store import Store

_DRAIN_TIMEOUT_S = 5.0
#: Columns of an output without an edge, such as a pipe.
_PIPE_COLUMNS: Final = 10_000

Days = Annotated[int, typer.Option(help="How many days back.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
TeamName = Annotated[str, typer.Argument(help="The team's name or id.")]
FeatureName = Annotated[str, typer.Argument(help='The feature; "" for calls that name none.')]
By = Annotated[str, typer.Option(envvar="USER", help="Who decides.")]


@dataclass(frozen=True, slots=True)
class Terminal:
    """The store, the clock and the output of a command.

    Attributes:
        open: Opens the store, or says why it cannot and ends the command.
        fail: Says what is wrong and ends the command.
        err: Prints remarks that are no result.
    """

    open: "Callable[[], Store]"
    now: Callable[[], float]
    out: Console
    fail: Callable[[str], NoReturn]
    err: Console = field(default_factory=lambda: Console(stderr=True, highlight=False, emoji=False))

    def name_ledger(self, store: "Store") -> None:
        """Print on stderr in which ledger a command has written."""
        self.err.print(f"Ledger: {store.address}", soft_wrap=True, markup=False)

    @contextmanager
    def store(self) -> "Iterator[Store]":
        """The store, closed at the end."""
        opened = self.open()
        try:
            yield opened
        finally:
            opened.close(_DRAIN_TIMEOUT_S)

    @property
    def author(self) -> str:
        """The account that runs the command, for the audit log; ? where it has no name."""
        try:
            return getuser()
        except (KeyError, OSError):
            return "?"

    def days_ago(self, days: int) -> float:
        """The time so many days ago."""
        return self.now() - days * 86_400.0

    def say(self, *lines: str) -> None:
        """Print lines: each whole, or wrapped between words where a terminal has no room for it."""
        for line in lines:
            for part in _wrap_line(line, self.out.width) if self.out.is_terminal else [line]:
                self.out.print(part, soft_wrap=True)

    def print_json(self, what: object) -> None:
        """Print a value as one JSON document, on one line."""
        self.out.print(msgspec.json.encode(what).decode(), soft_wrap=True)

    def show(self, table: Table) -> None:
        """Print a table, a row in a line.

        Where a terminal has no room for all of a row, its last columns stand below it by name. No
        text is broken, so that ids can be copied.
        """
        below: list[Column] = []
        while self.out.is_terminal and len(table.columns) > 1 and self._lacks_room(table):
            below.insert(0, table.columns.pop())
        tails = [[column.header, *column.cells] for column in below]
        for n, text in enumerate(self._full_width_lines(table)):
            self.out.print(text, style="" if n else "bold", soft_wrap=True)
            if tails and 0 < n <= table.row_count:
                self.say("  " + "; ".join(f"{tail[0]}: {tail[n]}" for tail in tails))

    def show_fitted(self, what: ConsoleRenderable) -> None:
        """Print something that fits itself to the terminal's width; a pipe has none."""
        if self.out.is_terminal:
            self.out.print(what)
            return
        for text in self._full_width_lines(what):
            self.out.print(text, soft_wrap=True)

    def _full_width_lines(self, what: ConsoleRenderable) -> Iterator[str]:
        wide = self.out.options.update(width=_PIPE_COLUMNS)
        for line in self.out.render_lines(what, wide, pad=False):
            yield "".join(segment.text for segment in line).rstrip()

    def _lacks_room(self, table: Table) -> bool:
        wide = self.out.options.update(width=_PIPE_COLUMNS)
        return self.out.measure(table, options=wide).maximum > self.out.width

    def names(self, store: "Store") -> dict[str, str]:
        """The teams' names, by their ids."""
        return {team.id: team.name for team in store.teams.all()}

    def team(self, store: "Store", name: str) -> str:
        """The id of the team with this name or id; ends the command where there is none."""
        record = find_team(store, name)
        if record is not None:
            return record.id
        return self.fail(f"There is no team named {name}. `thriftgate team list` shows them.")


def find_team(store: "Store", name: str) -> "Team | None":
    """The team with this name or id; None where there is none."""
    return next((team for team in store.teams.all() if name in {team.name, team.id}), None)


def sentence(error: Exception) -> str:
    """An error's text with a capital letter."""
    text = str(error)
    return text[:1].upper() + text[1:]


def empty_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table without lines."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def format_time(seconds: float) -> str:
    """A time to the minute, in UTC; "never" for 0."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC" if seconds else "never"


def feature_name(feature: str) -> str:
    """A feature as it is shown: calls that name none have one too."""
    return feature or "(none)"


def _wrap_line(line: str, width: int) -> list[str]:
    """A line in parts, each of whole words; a command in `` ` `` is one of them."""
    joined = re.sub(r"`[^`]+`", lambda command: command[0].replace(" ", "\0"), line)
    indent = line[: len(line) - len(line.lstrip())]
    parts = textwrap.wrap(
        joined, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [part.replace("\0", " ") for part in parts] or [line]
