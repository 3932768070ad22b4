"""What a command needs of the command line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from proxy.store.store import Store

_DRAIN = 5.0

Days = Annotated[int, typer.Option(help="How many days back.", min=1)]


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where a command finds the store and the clock, and where it speaks.

    Attributes:
        open: Opens the store, or says why it cannot and ends the command.
        now: Seconds since the epoch.
        out: Prints results.
        fail: Says what is wrong and ends the command.
    """

    open: Callable[[], Store]
    now: Callable[[], float]
    out: Console
    fail: Callable[[str], NoReturn]

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The store, closed at the end."""
        opened = self.open()
        try:
            yield opened
        finally:
            opened.close(_DRAIN)

    def since(self, days: int) -> float:
        """When so many days back was."""
        return self.now() - days * 86_400.0

    def say(self, *lines: str) -> None:
        """Print lines, each of them whole."""
        for line in lines:
            self.out.print(line, soft_wrap=True)

    def names(self, store: Store) -> dict[str, str]:
        """The teams' names, by their ids."""
        return {team.id: team.name for team in store.teams.all()}

    def team(self, store: Store, name: str) -> str:
        """The id of the team with this name or id; ends the command where there is none."""
        found = next((team for team in store.teams.all() if name in {team.name, team.id}), None)
        if found is not None:
            return found.id
        return self.fail(f"There is no team named {name}. `thriftgate team list` shows them.")


def grid(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table without lines."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def moment(seconds: float) -> str:
    """A time to the minute, in UTC; "never" for 0."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC" if seconds else "never"


def named(feature: str) -> str:
    """A feature as it is shown: calls that name none have one too."""
    return feature or "(none)"
