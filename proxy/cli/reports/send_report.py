"""``thriftgate report send``: sends a scheduled report by hand, or prints it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from proxy.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dashboards.reports import ReportPeriod
    from proxy.catalog.catalog import Catalog
    from proxy.services.alerts.http_sender import DeliveryFailure, HttpMessage
    from proxy.services.reports.mail_server import AddressedMail
    from proxy.services.reports.report_senders import ReportSenders
    from proxy.settings import Settings
    from slo.policies.file import Policies
    from slo.policies.reports import ScheduledReport

ReadSettings = Callable[[], "Settings"]
ReadPolicies = Callable[["Settings"], "Policies"]


def add_send(
    commands: typer.Typer,
    terminal: Terminal,
    catalog: Callable[[], Catalog],
    settings: ReadSettings,
    policies: ReadPolicies,
) -> None:
    """Add the command to those of ``thriftgate report``."""

    @commands.command("send")
    def send_command(
        name: Annotated[str, typer.Argument(help="The report's name in the policies file.")],
        *,
        period: Annotated[
            str,
            typer.Option(metavar="PERIOD", help="2026-W47 or 2026-11. [the last whole one]"),
        ] = "",
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Print it, and send nothing.")
        ] = False,
    ) -> None:
        """Send a scheduled report to its recipients now, once more if it was sent before.

        What the gateway sends by its schedule stays as it is.
        """
        chosen = settings()
        report = _find_report(terminal, policies(chosen).reports, name)
        reported = _period(terminal, report, period)
        senders = _senders(terminal, report, chosen, dry_run=dry_run)
        messages = _messages(terminal, senders, reported, catalog(), dry_run=dry_run)
        if not dry_run:
            failures = asyncio.run(_send(senders, messages))
            _say_results(terminal, failures)


def _find_report(
    terminal: Terminal, reports: Sequence[ScheduledReport], name: str
) -> ScheduledReport:
    report = next((report for report in reports if report.name == name), None)
    if report is not None:
        return report
    names = ", ".join(report.name for report in reports) or "none"
    return terminal.fail(f"There is no report {name} in the policies file; there are: {names}.")


def _period(terminal: Terminal, report: ScheduledReport, name: str) -> ReportPeriod:
    from dashboards.report_periods import PERIOD_EXAMPLES, last_period, named_period

    now = terminal.now()
    if not name:
        return last_period(report.every, report.time_zone, now)
    try:
        named = named_period(report.every, name, report.time_zone)
    except ValueError:
        example = PERIOD_EXAMPLES[report.every]
        terminal.fail(f"--period {name}: a {report.every} is written as {example}.")
    if named.bounds[1] > now:
        terminal.fail(f"--period {name} has not ended.")
    return named


def _senders(
    terminal: Terminal, report: ScheduledReport, settings: Settings, *, dry_run: bool
) -> ReportSenders:
    from proxy.services.reports.report_delivery import configured_senders

    (senders,), lacking = configured_senders([report], settings)
    if lacking and not dry_run:
        terminal.fail("\n".join(lacking))
    return senders


def _messages(
    terminal: Terminal,
    senders: ReportSenders,
    period: ReportPeriod,
    catalog: Catalog,
    *,
    dry_run: bool,
) -> dict[str, HttpMessage | AddressedMail]:
    """The message to each recipient; for a dry run, prints the report instead."""
    from proxy.errors import OperatorError
    from proxy.services.reports.report_content import report_content
    from proxy.services.reports.savings_figures import SavingsFigures

    with terminal.store() as opened:
        figures = SavingsFigures(opened, lambda: catalog, terminal.now)
        try:
            content = report_content(opened, senders.scheduled, period, figures)
        except OperatorError as error:
            terminal.fail(f"The report cannot be built: {error}.")
    if dry_run:
        mail, to = content.mail(), senders.scheduled.mail_to
        hook = [f"the webhook of {senders.scheduled.url_env}"] if senders.scheduled.url_env else []
        terminal.say(f"To: {', '.join([*to, *hook])}", f"Subject: {mail.subject}", "")
        typer.echo(mail.text, nl=False)
        return {}
    return {
        recipient: senders.message(content, recipient, terminal.now())
        for recipient in senders.recipients
    }


async def _send(
    senders: ReportSenders, messages: Mapping[str, HttpMessage | AddressedMail]
) -> dict[str, DeliveryFailure | None]:
    from proxy.services.alerts.http_sender import HttpSender

    async with HttpSender() as http:
        return {to: await senders.send(http, message) for to, message in messages.items()}


def _say_results(terminal: Terminal, failures: Mapping[str, DeliveryFailure | None]) -> None:
    """Say who took it, then end the command where somebody did not."""
    for to, failure in failures.items():
        if failure is None:
            terminal.say(f"Sent to {to}.")
    refusals = [
        f"Not sent to {to}: {failure.reason}." + (f" {failure.detail}" if failure.detail else "")
        for to, failure in failures.items()
        if failure is not None
    ]
    if refusals:
        terminal.fail("\n".join(refusals))
