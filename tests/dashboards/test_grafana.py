"""The boards ask for what the gateway tells Prometheus, and for nothing else."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import yaml

from proxy.cli.reports.dashboards import board_files
from tests.fakes.exported_metrics import LABEL, exported_metrics
from tests.fakes.promtool import promtool

QUERIED = re.compile(r"\b(thriftgate_\w+)(?:\{([^}]*)\})?")
BY = re.compile(r"by \(([^)]*)\)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")
VARIABLE = re.compile(r"label_values\((\w+), (\w+)\)")
BOARDS: dict[str, dict[str, Any]] = {
    name.removesuffix(".json"): json.loads(text) for name, text in sorted(board_files().items())
}
#: Values for Grafana's variables, so that Prometheus can parse what Grafana would send.
FILLED_IN = {"$__rate_interval": "5m", "$__range": "1h"}
COUNTER = re.compile(r"(rate|increase)\(thriftgate_\w+_(total|bucket)(\{[^}]*\})?\[")


@pytest.fixture(scope="module")
def metrics(tmp_path_factory) -> dict[str, set[str]]:
    """The metrics of gateways with budgets, objectives, engines: each with its labels."""
    return exported_metrics(tmp_path_factory.mktemp("gateways"))


@pytest.fixture(params=BOARDS)
def board(request) -> dict[str, Any]:
    return BOARDS[request.param]


def expressions(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each expression with its legend."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def variables(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The metric and the label of each filter."""
    for variable in board["templating"]["list"][1:]:
        yield from VARIABLE.findall(variable["query"]["query"])


def test_there_is_a_board_for_each_thing_that_operators_watch():
    assert list(BOARDS) == [
        "budgets", "cache-health", "compaction", "cost", "engines", "latency-and-objectives",
    ]  # fmt: skip
    assert {board["uid"] for board in BOARDS.values()} == {f"thriftgate-{name}" for name in BOARDS}


def test_a_board_asks_for_metrics_and_labels_that_the_gateway_has(board, metrics):
    for question, legend in expressions(board):
        queried = QUERIED.findall(question)
        grouped = {label.strip() for by in BY.findall(question) for label in by.split(",")}
        assert queried, question
        assert set(LEGEND.findall(legend)) <= grouped, question
        for name, labels in queried:
            assert name in metrics, question
            assert {*LABEL.findall(labels), *grouped} <= metrics[name], question
    assert list(variables(board))
    for metric, label in variables(board):
        assert label in metrics[metric]


def test_counters_and_histograms_are_read_as_rates_alone(board):
    for question, _ in expressions(board):
        raw = COUNTER.sub("", question)
        assert not re.search(r"thriftgate_\w+_(total|bucket|count|sum)\b", raw), question


def test_quantiles_are_of_buckets_summed_by_le(board):
    for question, _ in expressions(board):
        for start in re.finditer(r"histogram_quantile\(", question):
            assert re.match(r"[\d.]+, sum by \(le[,)]", question[start.end() :]), question


def test_every_expression_is_filtered_by_a_variable_of_its_board_or_has_no_such_label(
    board, metrics
):
    """A figure of all teams beside one of the team that was chosen would mislead."""
    for question, _ in expressions(board):
        for name, labels in QUERIED.findall(question):
            for _, label in variables(board):
                if label in metrics[name]:
                    assert f'{label}=~"${label}"' in labels, question


def test_prometheus_parses_every_expression(tmp_path):
    rules = []
    for board_name, board in BOARDS.items():
        for number, (question, _) in enumerate(expressions(board)):
            for variable, value in FILLED_IN.items():
                question = question.replace(variable, value)  # noqa: PLW2901 - one text
            question = re.sub(r"\$\w+", ".*", question)  # noqa: PLW2901
            record = f"{board_name.replace('-', '_')}:n{number}"
            rules.append({"record": record, "expr": question})
    file = tmp_path / "boards.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))

    ran = promtool("check", "rules", "--lint=none", file)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(rules)} rules found".encode() in ran.stdout


def test_panels_have_names_of_their_own_and_say_what_they_show(board):
    titles = [panel["title"] for panel in board["panels"]]

    assert len(set(titles)) == len(titles)
    assert len({panel["id"] for panel in board["panels"]}) == len(titles)
    assert all(panel["description"].endswith(".") for panel in board["panels"])


def test_panels_lie_beside_each_other_within_the_grid(board):
    places = [panel["gridPos"] for panel in board["panels"]]

    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_above


def test_numbers_are_queried_once_and_heat_maps_by_bucket(board):
    for panel in board["panels"]:
        for target in panel["targets"]:
            assert target.get("instant", False) == (panel["type"] == "stat")
            assert (target.get("format") == "heatmap") == (panel["type"] == "heatmap")


def test_the_money_of_compaction_comes_first():
    titles = [panel["title"] for panel in BOARDS["compaction"]["panels"]]

    assert titles[:2] == ["Saved by compaction, net", "Features with reduced compaction"]
