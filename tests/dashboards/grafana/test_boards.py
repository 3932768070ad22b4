"""The boards ask for what the gateway tells Prometheus, and for nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dashboards.grafana.boards import BOARDS, board_files
from dashboards.grafana.panels import Board
from tests.fakes.exported_metrics import LABEL, exported_metrics
from tests.fakes.promtool import promtool

GRAFANA = Path(__file__).resolve().parents[3] / "dashboards" / "grafana"
ASKED = re.compile(r"\b(thriftgate_\w+)(?:\{([^}]*)\})?")
BY = re.compile(r"by \(([^)]*)\)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")
NAMES = [board.name for board in BOARDS]
#: Values for Grafana's variables, so that Prometheus can parse what Grafana would send.
FILLED_IN = {"$__rate_interval": "5m", "$__range": "1h"}
COUNTER = re.compile(r"(rate|increase)\(thriftgate_\w+_(total|bucket)(\{[^}]*\})?\[")


@pytest.fixture(scope="module")
def metrics(tmp_path_factory) -> dict[str, set[str]]:
    """The metrics of gateways with budgets, objectives, engines: each with its labels."""
    return exported_metrics(tmp_path_factory.mktemp("gateways"))


@pytest.fixture(params=BOARDS, ids=NAMES)
def board(request) -> Board:
    found: Board = request.param
    return found


def expressions(board: Board) -> Iterator[tuple[str, str]]:
    """Each expression with its legend."""
    for panel in board.panels:
        for query in panel.queries:
            yield query.expr, query.legend


def test_the_files_are_what_the_code_generates():
    kept = {path.name: path.read_text(encoding="utf8") for path in GRAFANA.glob("*.json")}

    assert kept == dict(board_files()), "thriftgate dashboards grafana --out dashboards/grafana"


def test_there_is_a_board_for_each_thing_that_operators_watch():
    assert NAMES == [
        "cost", "cache-health", "latency-and-objectives", "budgets", "compaction", "engines",
    ]  # fmt: skip


def test_a_board_asks_for_metrics_and_labels_that_the_gateway_has(board, metrics):
    for question, legend in expressions(board):
        found = ASKED.findall(question)
        kept = {label.strip() for by in BY.findall(question) for label in by.split(",")}
        assert found, question
        assert set(LEGEND.findall(legend)) <= kept, question
        for name, labels in found:
            assert name in metrics, question
            assert {*LABEL.findall(labels), *kept} <= metrics[name], question
    for variable in board.variables:
        assert variable.label in metrics[variable.metric]


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
        for name, labels in ASKED.findall(question):
            for variable in board.variables:
                if variable.label in metrics[name]:
                    assert f'{variable.label}=~"${variable.label}"' in labels, question


def test_prometheus_parses_every_expression(tmp_path):
    rules = []
    for board in BOARDS:
        for number, (question, _) in enumerate(expressions(board)):
            for variable, value in FILLED_IN.items():
                question = question.replace(variable, value)  # noqa: PLW2901 - one text
            question = re.sub(r"\$\w+", ".*", question)  # noqa: PLW2901
            record = f"{board.name.replace('-', '_')}:n{number}"
            rules.append({"record": record, "expr": question})
    file = tmp_path / "boards.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))

    ran = promtool("check", "rules", "--lint=none", file)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(rules)} rules found".encode() in ran.stdout


def test_panels_have_names_of_their_own_and_say_what_they_show(board):
    titles = [panel.title for panel in board.panels]

    assert len(set(titles)) == len(titles)
    assert all(panel.description.endswith(".") for panel in board.panels)


def test_the_money_of_compaction_comes_first():
    (board,) = (each for each in BOARDS if each.name == "compaction")

    titles = [panel.title for panel in board.panels]
    assert titles[:3] == ["Saved by compaction, net", "Its small model", "Features stepped back"]
