"""Panels and boards as values, and the PromQL that they ask; pure."""

from typing import Final

import msgspec

RATE_WINDOW: Final = "$__rate_interval"
RANGE_WINDOW: Final = "$__range"


class Query(msgspec.Struct, frozen=True):
    """One expression of a panel.

    Attributes:
        expr: PromQL, with Grafana's variables.
        legend: Name of each of its series, with ``{{label}}`` where it has several.
    """

    expr: str
    legend: str = ""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One panel.

    Attributes:
        kind: ``stat``, ``timeseries``, ``heatmap`` or ``state-timeline``.
        unit: As Grafana names units.
        width: Columns of 24; 0 for the usual width of its kind.
        decimals: Digits after the point; None lets Grafana choose.
        is_stacked: True if its series add up to a whole.
    """

    kind: str
    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    width: int = 0
    decimals: int | None = None
    is_stacked: bool = False


class Variable(msgspec.Struct, frozen=True):
    """A filter of a board: the values that a metric has of a label."""

    label: str
    metric: str


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """One board; its name is that of its file."""

    name: str
    description: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


def stat(title: str, description: str, unit: str, expr: str, decimals: int | None = None) -> Panel:
    """A panel with one number."""
    return Panel(
        kind="stat",
        title=title,
        description=description,
        unit=unit,
        queries=(Query(expr),),
        decimals=decimals,
    )


def series(
    title: str, description: str, unit: str, *queries: Query, is_stacked: bool = False
) -> Panel:
    """A panel with lines over time."""
    return Panel(
        kind="timeseries",
        title=title,
        description=description,
        unit=unit,
        queries=queries,
        is_stacked=is_stacked,
    )


def rate(metric: str, where: str = "", by: str = "") -> str:
    """The sum of a counter's rates a second.

    Args:
        metric: Its name as Prometheus scrapes it, with ``_total``.
        where: Matchers between braces.
        by: Labels that are kept apart.
    """
    return _sum_expression("rate", _selector(metric, where), RATE_WINDOW, by)


def increase(metric: str, where: str = "", by: str = "") -> str:
    """A counter's increase over the time that the board shows."""
    return _sum_expression("increase", _selector(metric, where), RANGE_WINDOW, by)


def quantile(level: float, histogram: str, where: str = "", by: str = "") -> str:
    """A quantile of a histogram, of the rates of its buckets summed over processes.

    Args:
        level: From 0 to 1.
        histogram: Its name without ``_bucket``.
        where: Matchers between braces.
        by: Labels that are kept apart, besides ``le``.
    """
    return _quantile(level, histogram, (where, RATE_WINDOW), by)


def quantile_of_range(level: float, histogram: str, where: str = "") -> str:
    """A quantile of a histogram over the time that the board shows."""
    return _quantile(level, histogram, (where, RANGE_WINDOW), "")


def quantiles(histogram: str, where: str = "") -> tuple[Query, ...]:
    """The median, and what 95 and 99 of 100 stay below."""
    return tuple(
        Query(quantile(level, histogram, where), f"p{level * 100:g}") for level in (0.5, 0.95, 0.99)
    )


def heatmap(title: str, description: str, histogram: str, where: str = "") -> Panel:
    """A panel with the number of events by bucket of a histogram over time."""
    buckets = _sum_expression(
        "increase", _selector(f"{histogram}_bucket", where), RATE_WINDOW, "le"
    )
    return Panel(
        kind="heatmap",
        title=title,
        description=description,
        unit="short",
        queries=(Query(buckets, "{{le}}"),),
    )


def top(count: int, expr: str) -> str:
    """The so many largest series of an expression."""
    return f"topk({count}, {expr})"


def _quantile(level: float, histogram: str, of: tuple[str, str], by: str) -> str:
    where, window = of
    labels = f"le, {by}" if by else "le"
    buckets = _sum_expression("rate", _selector(f"{histogram}_bucket", where), window, labels)
    return f"histogram_quantile({level:g}, {buckets})"


def _sum_expression(function: str, selected: str, window: str, by: str) -> str:
    grouped = f" by ({by}) " if by else ""
    return f"sum{grouped}({function}({selected}[{window}]))"


def _selector(metric: str, where: str) -> str:
    return f"{metric}{{{where}}}" if where else metric
