"""The board for Grafana asks for what the gateway tells Prometheus, and for nothing else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from proxy.records.compaction_settings import SettingsSnapshot
from proxy.services.compaction.alerts import CompactedFeaturesCollector
from proxy.services.telemetry.telemetry import Telemetry
from tests.fakes.receipts import a_receipt

GRAFANA = Path(__file__).resolve().parents[2] / "dashboards" / "grafana"
SAMPLE = re.compile(r"^(thriftgate_\w+)(?:\{(.*)\})? ", re.MULTILINE)
ASKED = re.compile(r"\b(thriftgate_\w+)(?:\{([^}]*)\})?")
BY = re.compile(r"by \((\w+)\)")
LABEL = re.compile(r"(\w+)=~?\"")


@pytest.fixture(scope="module")
def told() -> dict[str, set[str]]:
    """The metrics of a gateway that compacts, each with its labels."""
    telemetry = Telemetry(log_calls=False)
    telemetry.register(CompactedFeaturesCollector(SettingsSnapshot))
    telemetry.observe(a_receipt(1, compaction="facts", compacted=True))
    telemetry.observe(a_receipt(1, compaction="facts", compaction_why="control"))
    found = SAMPLE.findall(telemetry.prometheus_text().decode())
    return {name: set(LABEL.findall(labels)) for name, labels in found}


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    """The board of what compaction saves."""
    found: dict[str, Any] = json.loads((GRAFANA / "compaction.json").read_text(encoding="utf8"))
    return found


def questions(board: dict[str, Any]) -> list[str]:
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    variables = board["templating"]["list"]
    return [*panels, *(each["query"]["query"] for each in variables if each["type"] == "query")]


def test_a_board_asks_for_metrics_and_labels_that_the_gateway_has(board, told):
    for question in questions(board):
        found = ASKED.findall(question)
        assert found, question
        assert question.count("(") == question.count(")"), question
        for name, labels in found:
            assert {*LABEL.findall(labels), *BY.findall(question)} <= told[name], question


def test_its_panels_stand_side_by_side_and_have_names_of_their_own(board):
    panels = board["panels"]
    squares = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]

    assert len(squares) == len(set(squares))
    assert max(x for x, _ in squares) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    assert all(panel["description"] for panel in panels)


def test_the_money_of_compaction_comes_first(board):
    titles = [panel["title"] for panel in board["panels"]]

    assert titles[:3] == ["Saved by compaction, net", "Its small model", "Features stepped back"]
