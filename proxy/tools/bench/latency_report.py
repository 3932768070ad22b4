"""A run's figures for a terminal: a table, and percentiles as marks on a logarithmic scale."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from proxy.tools.bench.latency_summary import CellFigures, LatencyPercentiles

#: Columns of the table; numbers stand on the right.
_COLUMNS: Final = (
    "prompt", "prefix", "callers", "calls", "failed", "TTFT p50", "p95", "p99", "ITL p50", "p95",
    "p99", "E2EL p50", "tokens/s", "calls/s", "cached",
)  # fmt: skip
_UNKNOWN: Final = "?"
#: Explanation of the columns.
LEGEND: Final = (
    "Times in ms. TTFT: first token. ITL: each token after it (also called TPOT), a mean per call,"
    " by the usage that the server tells. E2EL: whole call. p99 of fewer than 100 calls is the"
    " slowest one. tokens/s: all answers together. cached: part of the prompts read from a cache."
)
_LABEL_WIDTH: Final = 22
_MIN_SCALE_WIDTH: Final = 20
_MAX_SCALE_WIDTH: Final = 72
#: Marks of p50, p95 and p99, and the line between them.
_MARKS: Final = ("●", "┼", "│")
_LINE: Final = "─"


def latency_table(cells: Sequence[CellFigures]) -> Table:
    """One row for each combination."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "prefix" else "right")
    has_goodput = any(cell.goodput_share is not None for cell in cells)
    has_drafts = any(cell.acceptance_rate is not None for cell in cells)
    if has_goodput:
        table.add_column("goodput/s", justify="right")
        table.add_column("within limits", justify="right")
    if has_drafts:
        table.add_column("accepted", justify="right")
    for cell in cells:
        row = list(_row(cell))
        if has_goodput:
            row += [_number(cell.goodput_per_s), _percentage(cell.goodput_share)]
        if has_drafts:
            row.append(_percentage(cell.acceptance_rate))
        table.add_row(*map(Text, row))
    return table


def _row(cell: CellFigures) -> Iterator[str]:
    shape = cell.shape
    yield f"{shape.prompt_tokens:,}"
    yield str(shape.prefix)
    yield str(shape.concurrency)
    yield f"{cell.calls:,}"
    yield f"{cell.failed:,}"
    for figure in (cell.ttft_ms, cell.itl_ms):
        yield from _three(figure)
    yield _number(cell.e2el_ms.p50 if cell.e2el_ms else None)
    yield _number(cell.output_tokens_per_s)
    yield _number(cell.requests_per_s)
    yield _percentage(cell.cached_share)


def error_lines(cells: Sequence[CellFigures]) -> Iterator[str]:
    """Each name of a failure with its number, the most frequent first."""
    counts: dict[str, int] = {}
    for cell in cells:
        for name, count in cell.errors.items():
            counts[name] = counts.get(name, 0) + count
    for name, count in sorted(counts.items(), key=lambda item: -item[1]):
        yield f"Failed: {count:,} × {name}"  # noqa: RUF001 - times, as people write it


def chart_lines(cells: Sequence[CellFigures], width: int) -> Iterator[str]:
    """TTFT and ITL of each combination as lines of a chart, so many columns wide."""
    yield from _metric_lines("TTFT", cells, width, lambda cell: cell.ttft_ms)
    yield from _metric_lines("ITL", cells, width, lambda cell: cell.itl_ms)


def _metric_lines(
    name: str,
    cells: Sequence[CellFigures],
    width: int,
    of: Callable[[CellFigures], LatencyPercentiles | None],
) -> Iterator[str]:
    shown = [(cell, figure) for cell in cells if (figure := of(cell)) is not None]
    if not shown:
        return
    columns = min(max(width - _LABEL_WIDTH, _MIN_SCALE_WIDTH), _MAX_SCALE_WIDTH)
    scale = _LogScale([value for _, figure in shown for value in (figure.p50, figure.p99)], columns)
    yield ""
    yield f"{name}, ms (log scale): {_MARKS[0]} p50  {_MARKS[1]} p95  {_MARKS[2]} p99"
    yield f"{'':{_LABEL_WIDTH}}{scale.axis()}"
    for cell, figure in shown:
        shape = cell.shape
        label = f"{shape.prompt_tokens:>7,} {shape.prefix} x{shape.concurrency}"
        yield f"{label:{_LABEL_WIDTH}}{scale.marks(figure)}"


class _LogScale:
    """A logarithmic scale over so many columns, from one of 1, 2, 5, 10, 20, … to another."""

    def __init__(self, values: Sequence[float], columns: int) -> None:
        positive = [value for value in values if value > 0] or [1.0]
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        steps = [digit * 10.0**power for power in range(low, high + 1) for digit in (1, 2, 5)]
        start = max(n for n, step in enumerate(steps) if step <= min(positive))
        end = min(n for n, step in enumerate(steps) if step >= max(positive))
        self._ticks = steps[start : max(end, start + 1) + 1]
        self._columns = columns

    def axis(self) -> str:
        """The ticks, each where it stands; one without room is left out."""
        line = ""
        for tick in self._ticks:
            column = self._column(tick)
            if not line or column > len(line) + 1:
                line = f"{line:{column}}{tick:,g}"
        return line

    def marks(self, figure: LatencyPercentiles) -> str:
        """A line from p50 to p99 with its marks; where two fall together, the lower one stands."""
        places = [self._column(value) for value in (figure.p50, figure.p95, figure.p99)]
        line = [" "] * (places[-1] + 1)
        line[places[0] :] = _LINE * (places[-1] + 1 - places[0])
        for place, mark in reversed(list(zip(places, _MARKS, strict=True))):
            line[place] = mark
        return "".join(line)

    def _column(self, value: float) -> int:
        low, high = math.log10(self._ticks[0]), math.log10(self._ticks[-1])
        part = (math.log10(max(value, self._ticks[0])) - low) / (high - low)
        return round(part * (self._columns - 1))


def _three(figure: LatencyPercentiles | None) -> tuple[str, str, str]:
    if figure is None:
        return (_UNKNOWN, _UNKNOWN, _UNKNOWN)
    return _number(figure.p50), _number(figure.p95), _number(figure.p99)


def _number(value: float | None) -> str:
    """A number with three digits that tell something."""
    if value is None:
        return _UNKNOWN
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _percentage(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0%}"
