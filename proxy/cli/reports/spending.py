"""Spending by team and other dimensions, for ``thriftgate report``: its table and its document."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Final

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult
from rich.table import Table
from rich.text import Text

from dashboards.reports import ATTEMPTED_PARTS, Part, Percentiles, ReportPeriod, Spend, Times
from proxy.cli.columns import (
    COUNT,
    MONEY,
    Document,
    Form,
    TableColumn,
    documents,
    each_by,
    rate,
    usd,
    with_team,
)
from proxy.records.amounts import column

TimesByKey = Mapping[tuple[str, ...], Times]
"""Durations of calls, by the values of team and parts, and of all calls by ()."""

_STACKED: Final = (
    ("calls", "errors", "hit rate"),
    ("input tokens", "cached"),
    ("output", "estimated", "cost USD", "idle USD", "unpriced"),
    ("USD per 1k calls", "USD per 1k attempts", "TTFT p50/p95/p99 s", "duration p50/p95/p99 s"),
)
_ENDLESS: Final = 10_000
#: Of calls that name no feature, model or user, and of those refused before they had a route.
_NONE: Final = "(none)"


def _idle_cells(amounts: Sequence[int]) -> Iterator[str]:
    return (text if nanos else "0" for nanos, text in zip(amounts, column(amounts), strict=True))


def _per_1k_cells(rows: Sequence[Spend]) -> Iterator[str]:
    texts = column(row.nanos_per_1k_calls for row in rows)
    return (text if row.answered else "-" for row, text in zip(rows, texts, strict=True))


#: Columns that are shown where a row has any.
_OPTIONAL: Final = frozenset({"errors", "estimated", "idle USD", "unpriced"})
_PER_1K: Final = "USD per 1k calls"
_PER_1K_ATTEMPTS: Final = "USD per 1k attempts"
_COLUMNS: Final[tuple[TableColumn[Spend], ...]] = (
    TableColumn("calls", "calls", COUNT),
    TableColumn("errors", "errors", COUNT),
    TableColumn("input_tokens", "input tokens", COUNT, lambda row: row.usage.prompt_tokens),
    TableColumn("cached_tokens", "cached", COUNT, lambda row: row.usage.cache_read),
    TableColumn(
        "hit_rate",
        "hit rate",
        each_by(lambda part: f"{part or 0:.1%}"),
        lambda row: rate(row.usage.cache_read, row.usage.prompt_tokens),
    ),
    TableColumn("output_tokens", "output", COUNT, lambda row: row.usage.generated_tokens),
    TableColumn("estimated", "estimated", COUNT),
    TableColumn("cost_usd", "cost USD", MONEY, lambda row: row.cost_nanos),
    TableColumn("list_cost_usd", form=MONEY, of=lambda row: row.list_nanos),
    TableColumn("idle_cost_usd", "idle USD", Form(_idle_cells, usd), lambda row: row.idle_nanos),
    TableColumn("unpriced", "unpriced", COUNT),
    TableColumn("cost_per_1k_calls_usd", form=MONEY, of=lambda row: row.nanos_per_1k_calls),
    TableColumn("cost_per_1k_attempts_usd", form=MONEY, of=lambda row: row.nanos_per_1k_attempts),
    TableColumn("", _PER_1K, Form(_per_1k_cells), lambda row: row),
    TableColumn("", _PER_1K_ATTEMPTS, MONEY, lambda row: row.nanos_per_1k_attempts),
)
_FIGURES: Final = frozenset(name for stack in _STACKED for name in stack)


def report_document(
    period: ReportPeriod,
    rows: Iterable[Spend],
    total: Iterable[Spend],
    names: Mapping[str, str],
    parts: Sequence[Part],
    times: TimesByKey = MappingProxyType({}),
) -> Document:
    """The spend of a period, by team and those parts, and in all; null without calls.

    Args:
        total: The row of all teams; none without calls.
    """
    split: list[TableColumn[Spend]] = [TableColumn(part) for part in parts]
    columns = with_team(names, *split, *_COLUMNS, team=lambda row: row.team or "")
    return {
        "first": period.first.isoformat(),
        "end": period.end.isoformat(),
        "zone": period.zone,
        "rows": [
            document | _times_document(times.get(row.values(("team", *parts)), Times()))
            for row in rows
            for document in documents(columns, [row])
        ],
        "total": next(
            (
                documents(_COLUMNS, [row])[0] | _times_document(times.get((), Times()))
                for row in total
            ),
            None,
        ),
    }


def _times_document(times: Times) -> Document:
    """Seconds of the newest calls, and how many these are; null where none was timed."""
    return {
        "timed_calls": times.calls,
        "ttft_s": asdict(times.ttft),
        "duration_s": asdict(times.duration),
    }


def spending(
    rows: Sequence[Spend],
    names: Mapping[str, str],
    total: Sequence[Spend] = (),
    parts: Sequence[Part] = (),
    times: TimesByKey | None = None,
) -> ConsoleRenderable:
    """Rows of spending by team, and below them what they sum to.

    Errors, attempts whose tokens were estimated, and those without a price have a column where
    there are any. Where the terminal has no
    room for a column each, names stand one above the other and are folded, and so do some figures,
    whole. Money of one column has the same digits behind the point.

    Args:
        times: None leaves them and the cost of 1,000 calls out.
    """
    every = (*rows, *total)
    per_1k = _PER_1K_ATTEMPTS if ATTEMPTED_PARTS & {*parts} else _PER_1K
    left_out = {_PER_1K, _PER_1K_ATTEMPTS} - ({per_1k} if times is not None else set())
    texts = {
        shown.title: list(shown.form.cells(values))
        for shown in _COLUMNS
        if shown.title and shown.title not in left_out
        for values in [[shown.value(row) for row in every]]
        if shown.title not in _OPTIONAL or any(values)
    }
    if times is not None:
        keys = [row.values(("team", *parts)) for row in rows] + [()] * len(total)
        timings = [times.get(key, Times()) for key in keys]
        texts["TTFT p50/p95/p99 s"] = [_seconds(timing.ttft) for timing in timings]
        texts["duration p50/p95/p99 s"] = [_seconds(timing.duration) for timing in timings]
    places = [
        {"team": names.get(row.team or "", row.team or "")}
        | {part: getattr(row, part) or _NONE for part in parts}
        for row in rows
    ] + [{"team": "all"} | dict.fromkeys(parts, "") for _ in total]
    lines = [
        place | {name: cells[number] for name, cells in texts.items()}
        for number, place in enumerate(places)
    ]
    return _Spending(lines[: len(rows)], lines[len(rows) :], ("team", *parts))


class _Spending:
    """Lines of spending, each with its texts by what they are, in as many columns as there fit."""

    def __init__(
        self,
        lines: Sequence[Mapping[str, str]],
        sums: Sequence[Mapping[str, str]],
        names: tuple[str, ...],
    ) -> None:
        self._lines = lines
        self._sums = sums
        self._names = names

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = self._table([(name,) for name in (*self._lines, *self._sums)[0]])
        room = console.measure(wide, options=options.update(width=_ENDLESS)).maximum
        yield wide if room <= options.max_width else self._table([self._names, *_STACKED], below=1)

    def _table(self, columns: Iterable[tuple[str, ...]], below: int = 0) -> Table:
        """Texts of one column stand one above the other, lines apart by so many empty ones."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, below, 0))
        shown = {name for line in (*self._lines, *self._sums) for name in line}
        stacks = [tuple(name for name in column if name in shown) for column in columns]
        stacks = [stack for stack in stacks if stack]
        height = max(map(len, stacks))
        for stack in stacks:
            is_figure = stack[0] in _FIGURES
            table.add_column(
                "\n".join(stack) + "\n " * (height - len(stack)),
                justify="right" if is_figure else "left",
                no_wrap=is_figure,
                overflow="fold",
            )
        for lines, style in ((self._lines, ""), (self._sums, "bold")):
            for line in lines:
                texts = ("\n".join(line[name] for name in stack) for stack in stacks)
                table.add_row(*map(Text, texts), style=style)
        return table


def _seconds(percentiles: Percentiles) -> str:
    values = (percentiles.p50, percentiles.p95, percentiles.p99)
    return "/".join("-" if value is None else f"{value:.3g}" for value in values)
