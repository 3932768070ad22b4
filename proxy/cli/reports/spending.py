"""The table of spending by team and another dimension, for ``thriftgate report``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult
from rich.table import Table
from rich.text import Text

from dashboards.reports import Part, Percentiles, Spend, Times
from proxy.records.amounts import cell, decimal_places
from slo.usage import Usage

_FIGURES: Final = (
    "calls", "errors", "input tokens", "cached", "hit rate", "output", "estimated", "cost USD",
    "idle USD", "unpriced",
    "USD per 1k calls", "TTFT p50/p95/p99 s", "duration p50/p95/p99 s",
)  # fmt: skip
_STACKED: Final = (
    ("calls", "errors", "hit rate"),
    ("input tokens", "cached"),
    ("output", "estimated", "cost USD", "idle USD", "unpriced"),
    ("USD per 1k calls", "TTFT p50/p95/p99 s", "duration p50/p95/p99 s"),
)
_ENDLESS: Final = 10_000
#: Of calls that name no feature, model or user, and of those refused before they had a route.
_NONE: Final = "(none)"


class _Scale(NamedTuple):
    """Digits behind the point of each column of money."""

    cost: int
    per_1k: int


def spending(
    rows: Iterable[Spend],
    names: Mapping[str, str],
    total: Iterable[Spend] = (),
    parts: Sequence[Part] = (),
    times: Mapping[tuple[str, ...], Times] | None = None,
) -> ConsoleRenderable:
    """Rows of spending by team, and below them what they sum to.

    Errors, attempts whose tokens were estimated, and those without a price have a column where
    there are any. Where the terminal has no
    room for a column each, names stand one above the other and are folded, and so do some figures,
    whole. Money of one column has the same digits behind the point.

    Args:
        times: Durations of calls, by the values of team and parts, and of all by (); None to leave
            them and the cost of 1,000 calls out.
    """
    spends, sums = list(rows), list(total)
    scale = _Scale(
        cost=decimal_places(row.cost_nanos for row in (*spends, *sums)),
        per_1k=decimal_places(row.nanos_per_1k_calls for row in (*spends, *sums)),
    )
    lines = [
        {"team": names.get(row.team or "", row.team or "")}
        | {part: getattr(row, part) or _NONE for part in parts}
        | _figures(row, scale)
        | _per_call(row, row.values(("team", *parts)), times, scale)
        for row in spends
    ]
    below = [
        {"team": "all"}
        | dict.fromkeys(parts, "")
        | _figures(row, scale)
        | _per_call(row, (), times, scale)
        for row in sums
    ]
    return _Spending(lines, below, ("team", *parts))


def hit_rate(usage: Usage) -> float:
    """Cache-read tokens ÷ input tokens; 0 where there were none."""
    return usage.cache_read / usage.prompt_tokens if usage.prompt_tokens else 0.0


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
        wide = self._table([(name,) for name in (*self._names, *_FIGURES)])
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
                texts = ("\n".join(line.get(name, "0") for name in stack) for stack in stacks)
                table.add_row(*map(Text, texts), style=style)
        return table


def _figures(row: Spend, scale: _Scale) -> dict[str, str]:
    return {
        "calls": f"{row.calls:,}",
        **({"errors": f"{row.errors:,}"} if row.errors else {}),
        "input tokens": f"{row.usage.prompt_tokens:,}",
        "cached": f"{row.usage.cache_read:,}",
        "hit rate": f"{hit_rate(row.usage):.1%}",
        "output": f"{row.usage.generated_tokens:,}",
        **({"estimated": f"{row.estimated:,}"} if row.estimated else {}),
        "cost USD": cell(row.cost_nanos, scale.cost),
        **({"idle USD": cell(row.idle_nanos, scale.cost)} if row.idle_nanos else {}),
        **({"unpriced": f"{row.unpriced:,}"} if row.unpriced else {}),
    }


def _per_call(
    row: Spend,
    key: tuple[str, ...],
    times: Mapping[tuple[str, ...], Times] | None,
    scale: _Scale,
) -> dict[str, str]:
    """The cost of 1,000 calls and the duration of calls; nothing where there were none."""
    if times is None:
        return {}
    timing, nanos = times.get(key, Times()), row.nanos_per_1k_calls
    return {
        "USD per 1k calls": cell(nanos, scale.per_1k) if row.calls else "-",
        "TTFT p50/p95/p99 s": _seconds(timing.ttft),
        "duration p50/p95/p99 s": _seconds(timing.duration),
    }


def _seconds(percentiles: Percentiles) -> str:
    values = (percentiles.p50, percentiles.p95, percentiles.p99)
    return "/".join("-" if value is None else f"{value:.3g}" for value in values)
