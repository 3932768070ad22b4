"""``thriftgate export``: receipts as JSON lines, which ``replay`` reads where prompts are kept."""

from collections.abc import Callable
from typing import Annotated

import typer

from proxy.cli.terminal import Days, Terminal


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
