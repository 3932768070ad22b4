"""``thriftgate report``: what was spent, by team and what else; ``report cost`` is beside it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from dashboards.reports import Part, ReportPeriod
from proxy.cli.cost_report import ReadProviders, add_cost
from proxy.cli.send_report import ReadPolicies, ReadSettings, add_send
from proxy.cli.terminal import AsJson, Terminal
from proxy.records.amounts import quantity


class _Part(StrEnum):
    FEATURE = "feature"
    MODEL = "model"
    REQUESTED = "requested"
    ROUTE = "route"
    KEY = "key"
    USER = "user"


_PARTS: dict[_Part, Part] = {
    _Part.FEATURE: "feature",
    _Part.MODEL: "model",
    _Part.REQUESTED: "requested",
    _Part.ROUTE: "route",
    _Part.KEY: "key",
    _Part.USER: "user",
}


def reports(
    terminal: Terminal, providers: ReadProviders, settings: ReadSettings, policies: ReadPolicies
) -> typer.Typer:
    """The command, and those below it."""
    commands = typer.Typer(rich_markup_mode="markdown")
    commands.callback(invoke_without_command=True)(report(terminal))
    add_cost(commands, terminal, providers)
    add_send(commands, terminal, providers, settings, policies)
    return commands


def report(terminal: Terminal) -> Callable[..., None]:
    """The command."""

    def report_command(
        context: typer.Context,
        *,
        days: Annotated[int, typer.Option(help="How many days, today included.", min=1)] = 30,
        zone: Annotated[str, typer.Option(help="IANA time zone the days are in.")] = "UTC",
        by: Annotated[list[_Part] | None, typer.Option(help="What else to split by.")] = None,
        as_json: AsJson = False,
    ) -> None:
        """Calls, errors, tokens, hit rate, cost and times by team, and by what else is asked for.

        A model is the one that answered; split by requested for the one that was asked for. Users
        are keyed hashes; split by them, it has the 1,000 dearest rows. Times are of the newest
        200,000 calls of the period that went to an upstream. Estimated counts attempts whose tokens
        no upstream reported, such as streams that were abandoned.
        """
        if context.invoked_subcommand:
            return
        period = _period(terminal, days, zone)
        parts: list[Part] = [_PARTS[part] for part in dict.fromkeys(by or ())]
        with terminal.store() as opened:
            names, ledger = terminal.names(opened), opened.address
            rows = opened.reports.spend(period, ("team", *parts))
            total = opened.reports.spend(period, ())
            times = opened.reports.times(period, ("team", *parts))
        if as_json:
            from proxy.cli import json_documents

            terminal.print_json(json_documents.report(period, rows, total, names, parts, times))
        elif not rows:
            terminal.say(f"No calls in the last {quantity(days, 'day')} in {ledger}.")
        else:
            from proxy.tools.demo.spending import spending

            terminal.show_fitted(spending(rows, names, total, parts, times))

    return report_command


def _period(terminal: Terminal, days: int, zone: str) -> ReportPeriod:
    """So many days to the end of today; ends the command where there is no such zone."""
    try:
        end = datetime.fromtimestamp(terminal.now(), ZoneInfo(zone)).date() + timedelta(days=1)
    except (ValueError, KeyError, OSError):
        return terminal.fail(f"--zone {zone}: there is no such time zone; one is Europe/Berlin.")
    return ReportPeriod(first=end - timedelta(days=days), end=end, zone=zone)
