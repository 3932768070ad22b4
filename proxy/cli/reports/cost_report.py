"""``thriftgate report cost``: costs by any dimensions, as a table, CSV, JSON or FOCUS dataset."""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo

import msgspec
import typer

from dashboards.cost_reports import (
    DIMENSION_NAMES,
    CostReport,
    CostSums,
    Dimension,
    read_dimensions,
)
from dashboards.focus import FocusVersion, focus_dimensions, focus_export
from dashboards.report_summary.savings_sentences import headline_sentences
from dashboards.reports import ReportPeriod, is_tag
from proxy.cli.reports.savings import waiting_layout_summary
from proxy.cli.terminal import Terminal, empty_table
from proxy.records.amounts import cell, decimal_places, quantity

if TYPE_CHECKING:
    from dashboards.report_summary.read_report import ReadReport
    from proxy.catalog.catalog import Catalog

ReadCatalog = Callable[[], "Catalog"]
"""Reads the catalog that the settings name."""

_FIGURES: Final = (
    "calls", "errors", "input tokens", "cached", "output", "list USD", "cost USD", "unpriced"
)  # fmt: skip
#: For calls that name no feature, model or user, and those refused before they had a route.
_NONE: Final = "(none)"


class _Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    FOCUS = "focus"


def add_cost(commands: typer.Typer, terminal: Terminal, catalog: ReadCatalog) -> None:
    """Add the command to those of ``thriftgate report``."""

    @commands.command("cost")
    def cost_command(  # noqa: PLR0913 - options of a command
        *,
        by: Annotated[
            list[str] | None,
            typer.Option(help=f"Dimensions, between commas: {DIMENSION_NAMES}. [team]"),
        ] = None,
        first: Annotated[
            str, typer.Option("--from", metavar="DATE", help="The first day. [of this month]")
        ] = "",
        last: Annotated[
            str, typer.Option("--to", metavar="DATE", help="The last day. [today]")
        ] = "",
        zone: Annotated[
            str, typer.Option("--tz", metavar="ZONE", help="IANA time zone of the days.")
        ] = "UTC",
        form: Annotated[_Format, typer.Option("--format", help="Format to write.")] = _Format.TABLE,
        version: Annotated[
            FocusVersion, typer.Option("--focus-version", help="Version of FOCUS.")
        ] = FocusVersion.V1_2,
        out: Annotated[
            Path | None, typer.Option(metavar="FILE", help="Write a file in place of the screen.")
        ] = None,
    ) -> None:
        """Costs by team, feature, model, key, user, route, provider, upstream, day, month or tag.

        The rows add up to the ledger exactly, also days to months in their time zone. Attempts at
        no known price are counted apart and are in no cost. Users are keyed hashes; users and tags
        beyond the 1,000 dearest are (others). FOCUS has dimensions of its own, and tags.
        """
        dimensions = _dimensions(terminal, by or [], form)
        if form is _Format.TABLE and out is not None:
            terminal.fail("--out needs --format csv, json or focus.")
        period = _period(terminal, first, last, zone)
        from proxy.services.reports.savings_figures import SavingsFigures

        with terminal.store() as opened:
            read = SavingsFigures(opened, catalog, terminal.now).read_report(period, dimensions)
            waiting = waiting_layout_summary(opened)
        if form is _Format.TABLE:
            _show(terminal, read.report, read.names, waiting)
        else:
            _write(terminal, _file_text(read, (form, version)), out)


def _dimensions(terminal: Terminal, by: list[str], form: _Format) -> tuple[Dimension, ...]:
    """The dimensions asked for; ends the command where one is unknown or FOCUS has its own."""
    try:
        dimensions = read_dimensions(by)
    except ValueError as error:
        terminal.fail(f"--by {error}")
    if form is not _Format.FOCUS:
        return dimensions
    if by and not all(map(is_tag, dimensions)):
        terminal.fail("--by: FOCUS has dimensions of its own; name tags alone, or leave it out.")
    return focus_dimensions(dimensions)


def _period(terminal: Terminal, first: str, last: str, zone: str) -> ReportPeriod:
    """The days asked for, the last one included; ends the command where there are none such."""
    try:
        today = datetime.fromtimestamp(terminal.now(), ZoneInfo(zone)).date()
    except (ValueError, KeyError, OSError):
        terminal.fail(f"--tz {zone}: there is no such time zone; one is Europe/Berlin.")
    end = _day(terminal, "--to", last) if last else today
    start = _day(terminal, "--from", first) if first else end.replace(day=1)
    if start > end:
        terminal.fail(f"--from {start} is after --to {end}.")
    return ReportPeriod(first=start, end=end + timedelta(days=1), zone=zone)


def _day(terminal: Terminal, option: str, text: str) -> date:
    """A date as ``2026-11-30``, not so early or late that a month around it does not exist."""
    try:
        day = date.fromisoformat(text)
        if date(1971, 1, 1) <= day < date(9000, 1, 1):
            return day
    except ValueError:
        pass
    return terminal.fail(f"{option} {text}: a date is written as 2026-11-30.")


def _file_text(
    read: "ReadReport",
    form: tuple[_Format, FocusVersion],
) -> str:
    from dashboards.report_summary.files import cost_csv, cost_document

    if form[0] is _Format.CSV:
        return cost_csv(read)
    if form[0] is _Format.JSON:
        return msgspec.json.encode(cost_document(read)).decode() + "\n"
    export = focus_export(read.report, read.names, form[1])
    if export.left_out:
        typer.echo(
            f"{quantity(export.left_out, 'attempt')} at no known price left out: FOCUS has no"
            " unknown cost. `thriftgate check` names such models.",
            err=True,
        )
    return export.text


def _write(terminal: Terminal, text: str, out: Path | None) -> None:
    """Write UTF-8 with the line ends as they are; ends the command where a file cannot be."""
    if out is None:
        typer.echo(text.encode(), nl=False)
        return
    try:
        out.write_bytes(text.encode())
    except OSError as error:
        terminal.fail(f"--out {out}: {error.strerror}.")


def _show(terminal: Terminal, report: CostReport, names: Mapping[str, str], waiting: str) -> None:
    """Print a table, and below it the total and the layout that waits for approval, if any."""
    if not report.rows:
        terminal.say(
            f"No calls from {report.period.first} to {report.period.end - timedelta(days=1)}."
        )
        return
    total = report.total
    listed = decimal_places(row.sums.list_nanos for row in report.rows)
    places = decimal_places(row.sums.cost_nanos for row in report.rows)
    table = empty_table(*report.by, *_FIGURES, right=_FIGURES)
    for row in report.rows:
        named = zip(report.by, row.values, strict=True)
        shown = [
            _printable_name(names.get(v, v) if dimension == "team" else v) for dimension, v in named
        ]
        table.add_row(*shown, *_cells(row.sums, listed, places))
    table.add_row("all", *[""] * (len(report.by) - 1), *_cells(total, listed, places))
    terminal.show(table)
    if report.savings is not None:
        terminal.say("", *headline_sentences(report.savings), *filter(None, [waiting]))


def _printable_name(text: str) -> str:
    """A text that others chose as one line that no terminal obeys."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text) or _NONE


def _cells(sums: CostSums, listed: int, places: int) -> tuple[str, ...]:
    return (
        f"{sums.calls:,}",
        f"{sums.errors:,}",
        f"{sums.usage.prompt_tokens:,}",
        f"{sums.usage.cache_read:,}",
        f"{sums.usage.generated_tokens:,}",
        cell(sums.list_nanos, listed),
        cell(sums.cost_nanos, places),
        f"{sums.unpriced:,}",
    )
