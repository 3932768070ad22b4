"""``thriftgate report``: spending by team and another dimension; ``report cost`` is beside it."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from dashboards.reports import Part, ReportPeriod, latest_days
from proxy.cli.reports.cost_report import ReadCatalog, add_cost
from proxy.cli.reports.savings import waiting_layout_summary
from proxy.cli.reports.send_report import ReadPolicies, ReadSettings, add_send
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
    terminal: Terminal, catalog: ReadCatalog, settings: ReadSettings, policies: ReadPolicies
) -> typer.Typer:
    """The command, and those below it."""
    commands = typer.Typer(rich_markup_mode="markdown")
    commands.callback(invoke_without_command=True)(report(terminal, catalog))
    add_cost(commands, terminal, catalog)
    add_send(commands, terminal, catalog, settings, policies)
    return commands


def report(terminal: Terminal, catalog: ReadCatalog) -> Callable[..., None]:
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
        no upstream reported, such as streams that were abandoned. Below stands what was saved
        against sending the same calls directly.
        """
        if context.invoked_subcommand:
            return
        period = _period(terminal, days, zone)
        parts: list[Part] = [_PARTS[part] for part in dict.fromkeys(by or ())]
        with terminal.store() as opened:
            from proxy.services.reports.savings_figures import SavingsFigures

            names, ledger = terminal.names(opened), opened.address
            rows = opened.reports.spend(period, ("team", *parts))
            total = opened.reports.spend(period, ())
            times = opened.reports.times(period, ("team", *parts))
            saved = SavingsFigures(opened, catalog, terminal.now).headline(period)
            waiting = waiting_layout_summary(opened)
        if as_json:
            from dashboards.cost_formats import savings_document
            from proxy.cli.reports.spending import report_document

            document = report_document(period, rows, total, names, parts, times)
            terminal.print_json(document | {"savings": savings_document(saved)})
        elif not rows:
            terminal.say(f"No calls in the last {quantity(days, 'day')} in {ledger}.")
        else:
            from dashboards.report_summary.savings_sentences import headline_sentences
            from proxy.cli.reports.spending import spending

            terminal.show_fitted(spending(rows, names, total, parts, times))
            terminal.say("", *headline_sentences(saved), *filter(None, [waiting]))

    return report_command


def _period(terminal: Terminal, days: int, zone: str) -> ReportPeriod:
    try:
        return latest_days(terminal.now(), days, zone)
    except (ValueError, KeyError, OSError):
        return terminal.fail(f"--zone {zone}: there is no such time zone; one is Europe/Berlin.")
