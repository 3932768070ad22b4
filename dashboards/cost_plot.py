"""Coordinates of the chart of cumulative costs, ticks and points, for ``cost_curves.svg``."""

from dataclasses import dataclass
from typing import Final

from dashboards.views.replay import CostCurves

_WIDTH, _HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 745, 36, 272
#: A line's colour, and its dashes where it may lie on the line before.
_STYLES: Final = (("#0072b2", ""), ("#e69f00", "8 5"), ("#009e73", ""), ("#cc79a7", "3 4"))
#: Steps between ticks, each times a power of ten.
_STEPS: Final = (1, 2, 5)
_MAX_TICKS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotTick:
    """An amount on the vertical axis, in nano-dollars, and its place."""

    nanos: int
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotLine:
    """The line of one way: its points as SVG has them, and its cost at the end."""

    name: str
    points: str
    end_nanos: int
    color: str
    dash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlot:
    """A plot in units of its own.

    Attributes:
        left: Place of the vertical axis.
        right: Place of the last call.
        legend_width: Width of an entry of the legend.
    """

    calls: int
    ticks: tuple[PlotTick, ...]
    lines: tuple[PlotLine, ...]
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _RIGHT
    legend_width: int = (_RIGHT - _LEFT) // len(_STYLES)


def cost_plot(curves: CostCurves) -> CostPlot:
    """The plot of these curves, each from no call at no cost on."""
    calls = curves.calls[-1]
    most = max(way.nanos[-1] for way in curves.ways)
    step = _tick_step(most)
    top = max(-(-most // step), 1) * step

    def y(nanos: int) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * nanos / top, 1)

    def place(calls_so_far: int, nanos: int) -> str:
        return f"{round(_LEFT + (_RIGHT - _LEFT) * calls_so_far / calls, 1)},{y(nanos)}"

    return CostPlot(
        calls=calls,
        ticks=tuple(PlotTick(nanos=nanos, y=y(nanos)) for nanos in range(0, top + 1, step)),
        lines=tuple(
            PlotLine(
                name=way.name,
                points=" ".join(map(place, (0, *curves.calls), (0, *way.nanos))),
                end_nanos=way.nanos[-1],
                color=color,
                dash=dash,
            )
            for way, (color, dash) in zip(curves.ways, _STYLES, strict=False)
        ),
    )


def _tick_step(most: int) -> int:
    """The least round amount of which a few reach the most."""
    power = 1
    while True:
        for digit in _STEPS:
            if digit * power * (_MAX_TICKS - 1) >= most:
                return digit * power
        power *= 10
