"""``thriftgate replay``: what recorded calls cost, and what a gateway would have saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from dashboards.views.replay import ReplayReport
    from proxy.catalog.catalog import Catalog
    from proxy.catalog.entries import Model

_DAY: Final = 86_400.0
_NOTHING_TO_DO: Final = "Nothing that a gateway does would save 1 % of these calls."
#: Width of a table that goes to a file, characters of a bar at most, and between two columns.
_WIDE: Final = 120
_BAR: Final = 40
_GUTTER: Final = 2


def _check_files(files: list[Path]) -> list[Path]:
    for file in files:
        if str(file) != "-" and not file.exists():
            raise typer.BadParameter(f"there is no file {file}")
        if file.is_dir():
            raise typer.BadParameter(f"{file} is a folder: name its files, as in {file}/*.jsonl")
    return files


def _check_plot(file: Path | None) -> Path | None:
    if file is not None and file.suffix != ".svg":
        raise typer.BadParameter("the file's name ends in .svg")
    return file


_Files = Annotated[
    list[Path],
    typer.Argument(
        readable=True,
        callback=_check_files,
        help="Logs of any tool, as JSON, JSON lines or gzip: requests, exports, transcripts;"
        " - reads standard input.",
    ),
]
_ModelName = Annotated[
    str,
    typer.Option(
        help="Replay every call as this model of the catalog; each as its own without.",
        show_default=False,
    ),
]
_Speed = Annotated[float, typer.Option(help="How many times as fast as recorded.", min=0.001)]
_Gap = Annotated[float, typer.Option(help="Seconds between calls that carry no times.", min=0.0)]
_PlotFile = Annotated[
    Path | None,
    typer.Option(
        help="Write the cost over the calls, way by way, as an SVG.",
        dir_okay=False,
        callback=_check_plot,
    ),
]
_Ttl = Annotated[
    str,
    typer.Option(
        "--ttl",
        metavar="DURATION",
        help="Time for which the answer cache gives an answer again.",
    ),
]
_Reusable = Annotated[
    list[str] | None,
    typer.Option(
        "--reusable",
        metavar="FEATURE",
        help="A feature whose answers may all be given again, whatever its calls ask for.",
    ),
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def command(catalog: Callable[[], Catalog], now: Callable[[], float]) -> Callable[..., None]:
    """The command."""

    def replay_command(  # noqa: PLR0913 - options of a command
        files: _Files,
        *,
        model: _ModelName = "",
        speed: _Speed = 1.0,
        gap: _Gap = 2.0,
        plot: _PlotFile = None,
        ttl: _Ttl = "1h",
        reusable: _Reusable = None,
        as_json: _AsJson = False,
    ) -> None:
        """Show what recorded calls cost, and what the gateway would have saved on them.

        No call is made: the caches of each model's provider are simulated, prices are today's.
        """
        models = catalog()
        chosen = named_model(models, model) if model else None
        import msgspec

        from proxy.errors import OperatorError
        from proxy.tools.replay.fast_path.reused_answers import AnswerReuse
        from proxy.tools.replay.log_replay import LogReplay
        from proxy.tools.replay.report import replay_report
        from proxy.tools.replay.source import RecordedSource

        reuse = AnswerReuse(_ttl_seconds(ttl), reusable or ())
        with _progress_bar(files) as tell:
            source = RecordedSource(files, gap=gap, speed=speed, tell=tell)
            try:
                day = now() // _DAY * _DAY
                outcome = LogReplay(models.find, day, chosen, reuse).replay(source)
            except OperatorError as why:
                typer.echo(str(why), err=True)
                raise typer.Exit(1) from None
        report = replay_report(outcome, source)
        if plot is not None:
            _write_plot(plot, report)
        if as_json:
            typer.echo(msgspec.json.encode(report))
        else:
            print_report(_console(), report)
        if not outcome.calls:
            raise typer.Exit(1)

    return replay_command


def _ttl_seconds(text: str) -> float:
    from slo.duration import parse_duration
    from slo.policies.answer_cache import MAX_TTL_S

    seconds = parse_duration(text)
    if seconds is None or not 0 < seconds <= MAX_TTL_S:
        raise typer.BadParameter("write more than 0s and at most 30d, as in 6h", param_hint="--ttl")
    return seconds


def _write_plot(file: Path, report: ReplayReport) -> None:
    from dashboards.pages import cost_curves

    if report.curves is None:
        typer.echo(f"{file} was not written: no cost is known.", err=True)
    else:
        file.write_text(cost_curves(report.curves), encoding="utf-8")


def print_report(out: Console, report: ReplayReport) -> None:
    """Print the report for people: the result, by feature, what to do, the table and remarks."""
    if report.calls:
        out.print(report.headline, soft_wrap=True, style="bold")
        _print_features(out, report)
        _print_actions(out, report)
        _print_ways(out, report)
        _print_reuse(out, report)
    for remark in report.remarks:
        out.print(remark, soft_wrap=True)


def _console() -> Console:
    from rich.console import Console

    out = Console(highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out.width = _WIDE
    return out


def _print_features(out: Console, report: ReplayReport) -> None:
    from dashboards.formatting import dollars, signed_percent
    from proxy.tools.replay.report import WAY_NAMES

    if len(report.features) > 1:
        head = ("feature", "calls", *WAY_NAMES)
        rows = [
            (
                row.feature or "(none)",
                f"{row.calls:,}",
                dollars(row.nanos),
                *map(signed_percent, row.changes),
            )
            for row in report.features
        ]
        _print_table(out, head, rows)


def _print_actions(out: Console, report: ReplayReport) -> None:
    out.print()
    out.print("What to do:" if report.actions else _NOTHING_TO_DO)
    for number, action in enumerate(report.actions, 1):
        out.print(f"{number}. {action.what}", soft_wrap=True)
        for line in action.commands:
            out.print(f"   {line}", soft_wrap=True)


def _print_ways(out: Console, report: ReplayReport) -> None:
    """The table of the ways, each with a bar as long as its cost."""
    from dashboards.formatting import dollars, signed_percent

    maximum = max((row.nanos or 0 for row in report.ways), default=0)
    head = ("", "cost", "change", "hit rate", "read", "written", "input")
    rows = [
        (
            row.name,
            dollars(row.nanos),
            signed_percent(row.change) if number else "",
            f"{row.hit_rate:.1%}",
            f"{row.cache_read_tokens:,}",
            f"{row.cache_write_tokens:,}",
            f"{row.input_tokens:,}",
        )
        for number, row in enumerate(report.ways)
    ]
    width = sum(max(map(len, column)) + _GUTTER for column in zip(head, *rows, strict=True))
    room = max(0, min(_BAR, out.width - width))
    bars = ("█" * (room * (row.nanos or 0) // (maximum or 1)) for row in report.ways)
    barred = [(*row, bar) for row, bar in zip(rows, bars, strict=True)]
    _print_table(out, (*head, ""), barred, left=(0, len(head)))
    out.print()


def _print_reuse(out: Console, report: ReplayReport) -> None:
    """The calls that kept answers would have served, by feature; nothing without equal calls."""
    from dashboards.formatting import dollars, percentage

    if not report.reused:
        return
    out.print(report.reuse_summary, soft_wrap=True)
    head = ("feature", "calls", "may be kept", "hits", "share", "saved", "equal in all", "cost")
    rows = [
        (
            row.feature or "(none)",
            f"{row.calls:,}",
            f"{row.repeating:,}",
            f"{row.hits:,}",
            percentage(row.hits / row.calls),
            dollars(row.nanos),
            f"{row.equal:,}",
            dollars(row.equal_nanos),
        )
        for row in report.reused
    ]
    _print_table(out, head, rows)
    out.print()


def _print_table(
    out: Console, head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)
) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GUTTER, 0, 0))
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    out.print()
    out.print(table)


def named_model(catalog: Catalog, name: str) -> Model:
    """The model of that name.

    Raises:
        typer.BadParameter: If there is none.
    """
    model = catalog.find(name)
    if model is None:
        near = ", ".join(get_close_matches(name, catalog.models))
        mend = f"did you mean {near}?" if near else "the catalog has none with a name like it"
        raise typer.BadParameter(f"there is no model {name!r}; {mend}", param_hint="--model")
    return model


@contextmanager
def _progress_bar(files: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(bar_width=32), DownloadColumn(), TimeRemainingColumn())
    total = sum(file.stat().st_size for file in files if file.exists())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)
