"""A run as a PNG: TTFT, ITL and throughput over the number of callers, by length of prompts.

The chart is a Vega-Lite specification, drawn by vl-convert, the optional extra ``[plots]``.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from proxy.errors import OperatorError, how_to_install
from proxy.tools.bench.latency_summary import CellFigures, LatencyPercentiles

_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
#: Pixels per pixel, for screens and prints of today.
_SCALE: Final = 2.0
_WIDTH: Final = 250
_HEIGHT: Final = 150
#: Blue and orange, which the colour-blind tell apart, too (Okabe and Ito, 2008).
_COLORS: Final = {"cold": "#0072B2", "warm": "#E69F00"}
_MISSING: Final = (
    f"A PNG needs the package vl-convert-python: {how_to_install('plots')}."
    " Without --plot, the chart is drawn in the terminal."
)
#: Factor by which an axis goes beyond its values, and the least of a logarithmic one.
_MARGIN: Final = 1.15
_MIN_MS: Final = 0.001
#: Values that a logarithmic axis names.
_TICKS: Final = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)]
#: Rows of the chart: title of the axis, field of the figures.
_LATENCIES: Final = (("TTFT, ms", "ttft_ms"), ("ITL, ms per token", "itl_ms"))
_CONFIG: Final[dict[str, Any]] = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "padding": 16,
    "view": {"stroke": "#dddddd"},
    "axis": {
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": "#eeeeee",
        "domainColor": "#888888",
        "tickColor": "#888888",
    },
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "symbolStrokeWidth": 3, "symbolSize": 120},
    "title": {
        "anchor": "start",
        "fontSize": 16,
        "subtitleFontSize": 12,
        "subtitleColor": "#555555",
    },
}


def latency_png(cells: Sequence[CellFigures], title: str, subtitle: str) -> bytes:
    """The chart as a PNG.

    Raises:
        OperatorError: If the extra is not installed.
    """
    check_extra()
    import vl_convert  # noqa: PLC0415 - an optional extra

    specification = msgspec.json.encode(latency_specification(cells, title, subtitle)).decode()
    return vl_convert.vegalite_to_png(specification, scale=_SCALE)


def check_extra() -> None:
    """Check that a PNG can be drawn.

    Raises:
        OperatorError: If the extra is not installed.
    """
    try:
        import vl_convert  # noqa: F401, PLC0415 - an optional extra
    except ImportError as error:
        raise OperatorError(_MISSING) from error


def latency_specification(
    cells: Sequence[CellFigures], title: str, subtitle: str
) -> dict[str, Any]:
    """The chart in Vega-Lite: a column for each prompt length, a row for each figure."""
    lengths = sorted({cell.shape.prompt_tokens for cell in cells})
    rows = [*_LATENCIES, ("output tokens/s", "output_tokens_per_s")]
    measured = [
        (name, field) for name, field in rows if any(getattr(cell, field) for cell in cells)
    ]
    domains = {field: _domain(field, cells) for _, field in measured}
    by_length = {
        length: [cell for cell in cells if cell.shape.prompt_tokens == length] for length in lengths
    }
    columns = [
        {
            "title": {"text": f"{length:,} prompt tokens", "anchor": "middle", "fontSize": 13},
            "vconcat": [
                _panel(axis, field, by_length[length], domains[field]) for axis, field in measured
            ],
        }
        for length in lengths
    ]
    return {
        "$schema": _SCHEMA,
        "title": {"text": title, "subtitle": subtitle, "offset": 14},
        "config": _CONFIG,
        "spacing": 28,
        "hconcat": columns,
    }


def _domain(field: str, cells: Sequence[CellFigures]) -> list[float]:
    """The ends of an axis that all columns share; from 0 for what is no latency."""
    values = [point["value"] for point in _points(field, cells)]
    is_latency = any(field == name for _, name in _LATENCIES)
    low = max(min(values) / _MARGIN, _MIN_MS) if is_latency else 0.0
    return [low, max(*values, _MIN_MS) * _MARGIN]


def _panel(
    axis: str, field: str, cells: Sequence[CellFigures], domain: list[float]
) -> dict[str, Any]:
    """One figure over the number of callers: lines by prefix, dashes by percentile."""
    is_latency = any(field == name for _, name in _LATENCIES)
    measured = {str(cell.shape.prefix) for cell in cells}
    prefixes = [prefix for prefix in _COLORS if prefix in measured]
    color = {
        "field": "prefix",
        "type": "nominal",
        "title": "prefix",
        "scale": {"domain": prefixes, "range": [_COLORS[prefix] for prefix in prefixes]},
    }
    y: dict[str, Any] = {"field": "value", "type": "quantitative", "title": axis}
    y["scale"] = {"type": "log" if is_latency else "linear", "nice": False, "domain": domain}
    y["axis"] = {"tickCount": 4, "format": ",~r"}
    if is_latency:
        y["axis"]["values"] = [tick for tick in _TICKS if domain[0] <= tick <= domain[1]]
    dashes = {
        "field": "percentile",
        "type": "nominal",
        "title": "percentile",
        "scale": {"domain": ["p50", "p95", "p99"], "range": [[1, 0], [6, 3], [2, 3]]},
        "legend": {"symbolType": "stroke", "symbolSize": 600, "symbolStrokeColor": "#444444"},
    }
    encoding: dict[str, Any] = {
        "x": {
            "field": "callers",
            "type": "ordinal",
            "title": "callers at once",
            "axis": {"labelAngle": 0},
        },
        "y": y,
        "color": color,
    }
    # A mark for lines alone: the legend of one that has points, too, shows no dashes.
    lines = {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {}}
    points = {"mark": {"type": "point", "size": 40, "filled": True, "opacity": 1}}
    if is_latency:
        lines["encoding"] = {"strokeDash": dashes}
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "data": {"values": list(_points(field, cells))},
        "encoding": encoding,
        "layer": [lines, points],
    }


def _points(field: str, cells: Sequence[CellFigures]) -> Iterator[dict[str, Any]]:
    for cell in cells:
        figure = getattr(cell, field)
        base = {"callers": cell.shape.concurrency, "prefix": str(cell.shape.prefix)}
        if isinstance(figure, LatencyPercentiles):
            for name in ("p50", "p95", "p99"):
                yield base | {"percentile": name, "value": getattr(figure, name)}
        elif figure is not None:
            yield base | {"value": figure}
