"""Spending by team and what else as a table, for the demo and for ``thriftgate report``."""

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table
from rich.text import Text

from dashboards.reports import Part, Spend
from proxy.routes.relay import dollars
from slo.usage import Usage

_COLUMNS = ("calls", "input tokens", "cached", "hit rate", "output", "cost USD")


def spending(
    rows: Iterable[Spend],
    names: Mapping[str, str],
    total: Iterable[Spend] = (),
    parts: Sequence[Part] = (),
) -> Table:
    """Rows of spending by team, and below them what they sum to.

    Calls without a price have a column where there are any.

    Args:
        rows: One for each team and part.
        names: The teams' names by id; a team without one is shown by its id.
        total: The row of all teams, if there is to be one.
        parts: What the rows are split by besides the team.
    """
    named = [(names.get(row.team or "", row.team or ""), row, "") for row in rows]
    named += [("all", row, "bold") for row in total]
    some_unpriced = any(row.unpriced for _, row, _ in named)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for part in ("team", *parts):
        table.add_column(part, no_wrap=True)
    for column in (*_COLUMNS, *(["unpriced"] if some_unpriced else [])):
        table.add_column(column, justify="right", no_wrap=True)
    for name, row, style in named:
        unpriced = [f"{row.unpriced:,}"] if some_unpriced else []
        split = [Text(getattr(row, part) or "") for part in parts]
        table.add_row(Text(name), *split, *_figures(row), *unpriced, style=style)
    return table


def hit_rate(usage: Usage) -> float:
    """Cache-read tokens ÷ input tokens; 0 where there were none."""
    return usage.cache_read / usage.prompt if usage.prompt else 0.0


def _figures(row: Spend) -> tuple[str, ...]:
    return (
        f"{row.calls:,}",
        f"{row.usage.prompt:,}",
        f"{row.usage.cache_read:,}",
        f"{hit_rate(row.usage):.1%}",
        f"{row.usage.generated:,}",
        "unknown" if row.cost_nanos is None else dollars(row.cost_nanos),
    )
