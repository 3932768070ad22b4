"""Commands typed at a terminal whose store is a database of the test's own."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from typer.testing import CliRunner

from proxy.cli.terminal import Terminal
from proxy.records.receipt import Receipt
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from tests.fakes.databases import migrated_sqlite


class CommandRunner:
    """A pipe, or a terminal if it has a width.

    What a command says is in ``said``, and why it failed in ``failed``.
    """

    def __init__(self, folder: Path, now: float) -> None:
        self.now = now
        self.failed = ""
        self.width: int | None = None
        self._folder = folder

    def open(self) -> Store:
        """The store."""
        return Store.open(migrated_sqlite(self._folder / "thriftgate.db"), self._folder / "journal")

    def keep(self, *receipts: Receipt) -> None:
        """Put receipts into the ledger."""
        store = self.open()
        inserter(store._engine)(receipts)
        store.close(5)

    def said(
        self, build: Callable[[Terminal], typer.Typer], *words: str, stdin: bytes = b""
    ) -> str:
        """Return what the command prints; it has to succeed."""
        code, text = self._run(build, words, stdin)
        assert code == 0, (text, self.failed)
        return text

    def error_of(self, build: Callable[[Terminal], typer.Typer], *words: str) -> str:
        """Return why the command fails."""
        return self.failure_of(build, *words)[1]

    def failure_of(self, build: Callable[[Terminal], typer.Typer], *words: str) -> tuple[str, str]:
        """Return what the command prints, and why it fails."""
        code, text = self._run(build, words)
        assert code == 1
        return text, self.failed

    def _run(
        self, build: Callable[[Terminal], typer.Typer], words: tuple[str, ...], stdin: bytes = b""
    ) -> tuple[int, str]:
        console = Console(
            width=self.width or 80,
            force_terminal=self.width is not None,
            color_system=None,
            highlight=False,
            markup=False,
            emoji=False,
        )
        terminal = Terminal(self.open, lambda: self.now, console, self._fail)
        with console.capture() as captured:
            result = CliRunner().invoke(build(terminal), words, input=stdin, env={"USER": "ann"})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, captured.get() + result.output

    def _fail(self, why: str) -> NoReturn:
        self.failed = why
        raise typer.Exit(1)


def single_command(
    command: Callable[[Terminal], Callable[..., None]],
) -> Callable[[Terminal], typer.Typer]:
    """A command line of this one command."""

    def build(terminal: Terminal) -> typer.Typer:
        line = typer.Typer(pretty_exceptions_enable=False)
        line.command()(command(terminal))
        return line

    return build


def table_lines(output: str) -> list[str]:
    """Lines of the table that a command prints, without the sentences below it."""
    return output.split("\n\n", maxsplit=1)[0].splitlines()
