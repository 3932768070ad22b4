"""All boards in Grafana's JSON model, and the texts of their files; pure.

Panels are placed from left to right, and a row begins anew where one does not fit.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dashboards.grafana.engines_board import engines_board
from dashboards.grafana.money_boards import budgets_board, compaction_board, cost_board
from dashboards.grafana.panels import Board, Panel, Query, Variable
from dashboards.grafana.service_boards import cache_board, latency_board

_GRID_COLUMNS: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_SCHEMA_VERSION: Final = 39
_LEGEND: Final = {"displayMode": "list", "placement": "bottom", "showLegend": True}
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"]},
        "colorMode": "value",
        "graphMode": "none",
    },
    "timeseries": {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    "heatmap": {
        "calculate": False,
        "yAxis": {"unit": "s"},
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 64},
    },
    "state-timeline": {"legend": _LEGEND, "mergeValues": True, "showValue": "auto"},
}
_HEIGHTS: Final = {"stat": 4}
_USUAL_HEIGHT: Final = 8
_USUAL_WIDTHS: Final = {"stat": 6, "timeseries": 12, "heatmap": 12, "state-timeline": 12}

Json = dict[str, Any]

BOARDS: Final[tuple[Board, ...]] = (
    cost_board(),
    cache_board(),
    latency_board(),
    budgets_board(),
    compaction_board(),
    engines_board(),
)


def board_files() -> Mapping[str, str]:
    """The text of each board's file, by the file's name."""
    return {
        f"{board.name}.json": json.dumps(board_json(board), indent=2, ensure_ascii=False) + "\n"
        for board in BOARDS
    }


def board_json(board: Board) -> Json:
    """A board in Grafana's JSON model, which its import takes."""
    return {
        "uid": f"thriftgate-{board.name}",
        "title": f"Thriftgate: {board.name.replace('-', ' ')}",
        "description": board.description,
        "tags": ["thriftgate"],
        "schemaVersion": _SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "utc",
        "graphTooltip": 1,
        "templating": {"list": [_data_source(), *map(_variable_json, board.variables)]},
        "panels": _place_panels(board.panels),
    }


def _data_source() -> Json:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable_json(variable: Variable) -> Json:
    return {
        "name": variable.label,
        "label": variable.label.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "query": {
            "query": f"label_values({variable.metric}, {variable.label})",
            "refId": variable.label,
        },
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "refresh": 2,
        "sort": 1,
        "current": {"text": "All", "value": "$__all"},
    }


def _place_panels(panels: Sequence[Panel]) -> list[Json]:
    """The panels with their places: a row is as high as its highest panel."""
    placed: list[Json] = []
    x = y = row_height = 0
    for number, panel in enumerate(panels, start=1):
        width = panel.width or _USUAL_WIDTHS[panel.kind]
        if x + width > _GRID_COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        height = _HEIGHTS.get(panel.kind, _USUAL_HEIGHT)
        place = {"x": x, "y": y, "w": width, "h": height}
        placed.append(_panel_json(panel, number, place))
        x, row_height = x + width, max(row_height, height)
    return placed


def _panel_json(panel: Panel, number: int, place: Json) -> Json:
    defaults: Json = {"unit": panel.unit}
    if panel.decimals is not None:
        defaults["decimals"] = panel.decimals
    if panel.is_stacked:
        defaults["custom"] = {"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 30}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": list(_targets(panel.kind, panel.queries)),
        "options": _OPTIONS[panel.kind],
    }


def _targets(kind: str, queries: Iterable[Query]) -> Iterable[Json]:
    for letter, query in zip("ABCDEFGHIJ", queries, strict=False):
        target: Json = {
            "refId": letter,
            "expr": query.expr,
            "legendFormat": query.legend,
            "datasource": _SOURCE,
        }
        if kind == "stat":
            target["instant"] = True
        if kind == "heatmap":
            target["format"] = "heatmap"
        yield target
