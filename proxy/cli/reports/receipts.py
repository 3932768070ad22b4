"""``thriftgate receipts import`` and ``thriftgate export``: receipts from a log, and as JSON lines.

What is exported is read by ``replay`` where prompts are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from proxy.cli.terminal import Days, Terminal
from proxy.records.amounts import quantity

if TYPE_CHECKING:
    from proxy.settings import Settings
    from proxy.store.receipt_import import ReceiptImport

_DAY_S: Final = 86_400.0
_STDIN: Final = "-"


def receipts(terminal: Terminal, settings: Callable[[], Settings]) -> typer.Typer:
    """The group of commands about receipts."""
    commands = typer.Typer(
        no_args_is_help=True, help="Put receipts that stand in a log alone into the ledger."
    )
    commands.callback()(lambda: None)

    @commands.command("import")
    def import_command(
        files: Annotated[
            list[str], typer.Argument(metavar="FILE…", help="Logs of the gateway; - reads stdin.")
        ],
    ) -> None:
        """Put receipts that stand in a log alone into the ledger, each once.

        Where neither disk nor database takes a receipt until the gateway stops, it is written to
        the log, without its prompt. Lines of `thriftgate export` are read, too; all other lines are
        passed over. What is in the ledger already is not booked again, so a log may be read twice.
        A line that is refused is named with its number, the others are booked, and the exit status
        is 1.
        """
        from proxy.store.errors import StoreError
        from proxy.store.receipt_import import ReceiptImport

        oldest = terminal.now() - settings().retention_days * _DAY_S
        with terminal.store() as store:
            booking = ReceiptImport(store, oldest)
            try:
                for file in files:
                    with _open_log(terminal, file) as lines:
                        booking.read("stdin" if file == _STDIN else file, lines)
            except StoreError as error:
                why = str(error.__cause__ or error).strip().partition("\n")[0]
                terminal.fail(
                    f"The database went away ({why}) when {quantity(booking.booked, 'receipt')}"
                    " had been booked. Import the same again: none is booked twice."
                )
        _print_result(terminal, booking)

    return commands


@contextmanager
def _open_log(terminal: Terminal, file: str) -> Iterator[BinaryIO]:
    try:
        if file == _STDIN:
            yield sys.stdin.buffer
            return
        with Path(file).open("rb") as opened:
            yield opened
    except OSError as error:
        terminal.fail(f"{file} cannot be read: {error.strerror or error}.")


def _print_result(terminal: Terminal, booking: ReceiptImport) -> None:
    already = booking.found - booking.booked - booking.refusals
    for line in booking.refused:
        terminal.say(line)
    if booking.refusals > len(booking.refused):
        terminal.say(f"and {booking.refusals - len(booking.refused):,} more.")
    terminal.say(
        f"{quantity(booking.lines, 'line')} read, {quantity(booking.found, 'receipt')} found:"
        f" {booking.booked:,} booked, {already:,} already in the ledger,"
        f" {booking.refusals:,} refused."
    )
    if booking.refusals:
        terminal.fail(f"{quantity(booking.refusals, 'line')} refused.")


def export(terminal: Terminal) -> Callable[..., None]:
    """The command."""

    def export_command(
        *,
        days: Days = 30,
        team: Annotated[str, typer.Option(help="Of this team alone; its name or id.")] = "",
    ) -> None:
        """Receipts as JSON, one a line, as the calls arrived.

        Prompts are among them where their team keeps prompts; then `replay` reads them.
        """
        with terminal.store() as opened:
            chosen = terminal.team(opened, team) if team else ""
            for receipt in opened.ledger.receipts_since(terminal.days_ago(days), chosen):
                terminal.print_json(receipt)

    return export_command
