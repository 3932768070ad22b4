"""A real Prometheus beside a gateway: it reads the metrics, the rules and the boards' questions."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from proxy.cli.reports.dashboards import board_files
from proxy.cli.yaml_documents import dump_yaml
from proxy.configuration import read_policies
from proxy.settings import Settings
from slo.objectives.prometheus_rules import rule_groups
from slo.objectives.prometheus_spend_rules import spend_groups
from tests.fakes.free_port import free_port
from tests.fakes.gateway_fixture import GatewayFixture, running_gateway
from tests.fakes.plain_http import PLAIN

PROMETHEUS = shutil.which("prometheus")
#: Seconds until it has read the metrics twice and judged the rules.
DEADLINE_S = 60.0
POLICIES = """
[[objectives]]
name = "chat-ttft"
metric = "ttft"
p = 95
under = "500ms"

[[budgets]]
name = "day"
scope = "team"
limit = "100"
unit = "usd"
window = "day"
"""
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
- job_name: thriftgate
  static_configs: [{{targets: ["{target}"]}}]
"""
#: Grafana's variables, with the value that it would put there.
VARIABLES: Mapping[str, str] = {"$__range": "5m", "$__rate_interval": "5m"}
Json = dict[str, Any]

pytestmark = pytest.mark.skipif(
    PROMETHEUS is None, reason="Prometheus is not on the PATH; Debian's package holds it"
)


class PrometheusServer:
    """A Prometheus that scrapes one gateway each second."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, path: str, **query: str) -> Json:
        """The data of an answer; an empty object where it does not answer yet."""
        try:
            answer = httpx.get(
                self._url + path, params=query, trust_env=False, timeout=10, verify=PLAIN
            )
        except httpx.TransportError:
            return {}
        if answer.status_code == 503:  # it listens before it has read its own storage
            return {}
        assert answer.json()["status"] == "success", answer.text
        document: Json = answer.json()["data"]
        return document

    def values(self, question: str) -> list[Json]:
        """The series that a question gives."""
        return list(self.ask("query", query=question).get("result", []))

    def wait_for(self, question: str) -> None:
        """Wait until a question gives something."""
        until = time.monotonic() + DEADLINE_S
        while not self.values(question):
            assert time.monotonic() < until, f"nothing for {question}"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFixture]:
    folder = tmp_path_factory.mktemp("scraped")
    policies = folder / "policies.toml"
    policies.write_text(POLICIES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMULATOR_KEY", "simulator-key")
        with running_gateway(folder, policies=policies) as running:
            yield running


@pytest.fixture(scope="module")
def prometheus(gateway: GatewayFixture) -> Iterator[PrometheusServer]:
    folder, port = gateway.folder, free_port()
    policies_read = read_policies(Settings(folder=folder, policies=folder / "policies.toml"))
    groups = [
        *rule_groups(policies_read.objectives)["groups"],
        *spend_groups(policies_read.budgets),
    ]
    rules, config = folder / "rules.yml", folder / "prometheus.yml"
    rules.write_text(dump_yaml([{"groups": groups}]))
    target = gateway.url.removeprefix("http://").removesuffix("/v1")
    config.write_text(CONFIG.format(rules=rules, target=target))
    log = (folder / "prometheus.log").open("wb")
    child = subprocess.Popen(  # noqa: S603 - Debian's Prometheus
        [
            str(PROMETHEUS),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'series'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=log,
        stderr=log,
    )
    try:
        server = PrometheusServer(port)
        for number in range(6):
            call(gateway, f"Call {number}.")
            server.wait_for(f"thriftgate_calls_total >= {number + 1}")
        yield server
    finally:
        child.terminate()
        child.wait(30)
        log.close()


def call(gateway: GatewayFixture, words: str) -> None:
    answer = httpx.post(
        f"{gateway.url}/chat/completions",
        json={"model": "gpt-lab", "messages": [{"role": "user", "content": words}]},
        headers={"authorization": f"Bearer {gateway.key}"},
        trust_env=False,
        timeout=30,
        verify=PLAIN,
    )
    assert answer.status_code == 200, answer.text


def questions(board: str) -> list[str]:
    """The questions of a board, with values for its variables."""
    panels = json.loads(board_files()[board])["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    for name, value in VARIABLES.items():
        queries = [query.replace(name, value) for query in queries]
    return [re.sub(r"\$\w+", ".*", query) for query in queries]


def test_prometheus_reads_the_metrics(prometheus: PrometheusServer) -> None:
    assert [series["value"][1] for series in prometheus.values("up")] == ["1"]


def test_prometheus_evaluates_every_rule_without_an_error(prometheus: PrometheusServer) -> None:
    until = time.monotonic() + DEADLINE_S
    while True:
        groups = prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        if all(rule["health"] == "ok" for rule in rules) or time.monotonic() > until:
            break
        time.sleep(0.2)

    assert {"ThriftgateBudgetSpent", "ThriftgateBudgetBurns"} <= {rule["name"] for rule in rules}
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []


@pytest.mark.parametrize("board", sorted(board_files()))
def test_prometheus_answers_every_query_of_a_board(
    prometheus: PrometheusServer, board: str
) -> None:
    for question in questions(board):
        prometheus.ask("query", query=question)


def test_the_cost_board_shows_what_was_called(prometheus: PrometheusServer) -> None:
    prometheus.wait_for("sum(increase(thriftgate_cost_usd_total[5m])) > 0")
    empty = [query for query in questions("cost.json") if not prometheus.values(query)]

    assert len(empty) < len(questions("cost.json")) / 2
