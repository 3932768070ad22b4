"""``thriftgate replay``: what recorded calls cost, and what they would have cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy.records.amounts import quantity

if TYPE_CHECKING:
    from proxy.catalog.catalog import Catalog
    from proxy.catalog.entries import Model
    from proxy.tools.replay.prompts import PromptReader
    from proxy.tools.replay.report import ReportDetails
    from proxy.tools.replay.run import ReplayOutcome
    from proxy.tools.replay.source import RecordedSource

_MODEL: Final = "gpt-5.6-terra"
_DAY: Final = 86_400.0
_NONE: Final = (
    "No call was found that could be replayed: each line is to be one, as JSON, such as"
    ' {"body": {"messages": [{"role": "user", "content": "Good morning."}]}}.'
)
#: Columns of a table that goes to a file.
_WIDE: Final = 120


_Files = Annotated[
    list[Path],
    typer.Argument(
        exists=True,
        dir_okay=False,
        readable=True,
        help="JSON lines: recorded calls, batch files, or exported receipts with prompts.",
    ),
]
_ModelName = Annotated[
    str, typer.Option(help="Any model of the catalog; its first route is replayed.")
]
_Speed = Annotated[float, typer.Option(help="How many times as fast as recorded.", min=0.001)]
_Gap = Annotated[float, typer.Option(help="Seconds between calls that carry no times.", min=0.0)]
_AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def command(catalog: Callable[[], Catalog], now: Callable[[], float]) -> Callable[..., None]:
    """The command.

    Args:
        catalog: The models that may be asked for.
        now: The day's prices are used.
    """

    def replay_command(
        files: _Files,
        *,
        model: _ModelName = _MODEL,
        speed: _Speed = 1.0,
        gap: _Gap = 2.0,
        as_json: _AsJson = False,
    ) -> None:
        """What would recorded calls have cost, sent unmodified, in better ways, and compacted?

        No call is made: the caches of the model's provider are simulated, prices are today's.
        Where no text of a feature was arranged, it says why.
        """
        chosen = named_model(catalog(), model)
        from proxy.tools.replay.compaction import CompactedVariant
        from proxy.tools.replay.planning import PlannedVariant
        from proxy.tools.replay.prompts import PromptReader
        from proxy.tools.replay.report import ReportDetails, report_json
        from proxy.tools.replay.run import replay
        from proxy.tools.replay.source import RecordedSource
        from proxy.tools.replay.vocabulary import LineVocabulary

        reading = PromptReader(chosen, chosen.routes[0], LineVocabulary())
        with _bar(files) as tell:
            source = RecordedSource(files, gap=gap, speed=speed, tell=tell)
            day = now() // _DAY * _DAY
            marked, arranged = (
                PlannedVariant(reading, day, arranges=moves) for moves in (False, True)
            )
            compacted = CompactedVariant(reading, day)
            outcome = replay(source, reading, (marked, arranged, compacted), day=day)
        beside = ReportDetails(unmoved=arranged.unmoved_features(), compaction=compacted.totals())
        if as_json:
            typer.echo(report_json(outcome, source, reading, beside))
        else:
            _print(outcome, source, reading, beside)
        if not outcome.calls:
            typer.echo(_NONE, err=True)
            raise typer.Exit(1)

    return replay_command


def _print(
    outcome: ReplayOutcome, source: RecordedSource, reading: PromptReader, beside: ReportDetails
) -> None:
    """Show a person what came of it."""
    from rich.console import Console

    from proxy.tools.replay.report import LEGEND, remarks, table

    out = Console(highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out.width = _WIDE
    if outcome.calls:
        route, tokens = reading.route, outcome.variants[0].input_tokens
        calls = quantity(outcome.calls, "call")
        out.print(
            f"{calls} of {tokens:,} input tokens as {reading.public} ({route.name},"
            f" {route.regime or 'no known cache'}); --model names another.\n",
            soft_wrap=True,
        )
        out.print(table(outcome.variants))
        out.print()
        for line in LEGEND:
            out.print(line, soft_wrap=True)
        out.print()
    for remark in remarks(outcome, source, beside):
        out.print(remark, soft_wrap=True)


def named_model(known: Catalog, name: str) -> Model:
    """The model of that name.

    Raises:
        typer.BadParameter: If there is none.
    """
    found = known.find(name)
    if found is None:
        near = ", ".join(get_close_matches(name, known.models))
        mend = f"did you mean {near}?" if near else "the catalog has none with a name like it"
        raise typer.BadParameter(f"there is no model {name!r}; {mend}", param_hint="--model")
    return found


@contextmanager
def _bar(files: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    """What is told of bytes read; a bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(bar_width=32), DownloadColumn(), TimeRemainingColumn())
    total = sum(file.stat().st_size for file in files)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda count: bar.advance(task, count)
