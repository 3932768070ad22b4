import json
from collections.abc import Callable

import pytest
import typer
import yaml

from proxy.cli.policies.objectives import objectives
from proxy.cli.terminal import Terminal
from proxy.settings import Settings
from slo.objectives.burn import burn_alerts
from slo.objectives.objective import BurnAlert, Enforce, Metric, Objective, RequestKind
from slo.objectives.openslo import openslo_documents
from slo.objectives.prometheus_rules import rule_groups
from slo.policies import file as policies_file
from slo.policies.file import Policies
from slo.toml.nodes import parse_toml
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.objectives import objective

CHAT = objective(
    name="chat-ttft",
    feature="chat",
    calls=RequestKind.STREAMS,
    metric=Metric.TTFT,
    under=0.5,
    enforce=Enforce.DEGRADE,
    ladder=("elsewhere", "small", "shed"),
    alerts=(BurnAlert(burn=6.0, over=1800.0),),
)
ERRORS = objective(name="answers", metric=Metric.ERRORS, target=0.99, feature="")
FLOOR = objective(name="floor", metric=Metric.CACHE, target=0.7)
COST = objective(name="cost", metric=Metric.COST, target=0.99, team="[red]é\U0001f600")
EVERY = (CHAT, ERRORS, FLOOR, COST)


def objectives_command(*promised: Objective) -> Callable[[Terminal], typer.Typer]:
    return lambda terminal: objectives(terminal, Settings, lambda _: Policies(objectives=promised))


@pytest.fixture
def runner(tmp_path):
    return CommandRunner(tmp_path, NOW)


def test_without_objectives_it_says_how_to_have_some(runner):
    assert "THRIFTGATE_POLICIES" in runner.said(objectives_command())


def test_each_objective_has_a_line(runner):
    lines = runner.said(objectives_command(*EVERY)).splitlines()

    assert [" ".join(line.split()) for line in lines] == [
        "objective team feature calls what target enforce ladder",
        "chat-ttft * chat streams only ttft within 500ms 95% degrade elsewhere, small, shed",
        "answers * (none) all errors at most 1% alert none",
        (
            "floor * * all input tokens read from caches, of prompts from 1,024 tokens"
            " at least 0.7, again from 0.73 alert none"
        ),
        "cost [red]é\U0001f600 * all cost within $0.05 99% alert none",
        (
            "Where each stands is known to the gateway alone: its /metrics has"
            " thriftgate_objective_state and _level. With THRIFTGATE_REDIS_URL it is shown here."
        ),
    ]


def test_objectives_as_json_have_their_burn_alerts(runner):
    documents = json.loads(runner.said(objectives_command(CHAT, ERRORS), "--json"))["objectives"]

    assert documents[0] == {
        "name": "chat-ttft",
        "team": "*",
        "feature": "chat",
        "calls": "streams",
        "metric": "ttft",
        "what": "p95 of ttft within 500ms",
        "target": 0.95,
        "enforce": "degrade",
        "ladder": ["elsewhere", "small", "shed"],
        "alerts": [{"burn": 6.0, "over": "30m", "severity": "page"}],
        "status": None,
    }
    assert len(documents[1]["alerts"]) == len(burn_alerts(ERRORS)) == 3


def test_objectives_are_exported_as_openslo(runner):
    output = runner.said(objectives_command(*EVERY), "export")

    assert list(yaml.safe_load_all(output)) == openslo_documents(EVERY)
    assert runner.said(objectives_command(*EVERY), "export", "--format", "openslo") == output


def test_objectives_are_exported_as_rules_for_prometheus(runner):
    output = runner.said(objectives_command(*EVERY), "export", "--format", "prometheus")

    assert yaml.safe_load(output) == rule_groups(EVERY)
    assert "expr: |" in output


def test_objectives_are_exported_as_a_policies_file(runner):
    output = runner.said(objectives_command(*EVERY), "export", "--format", "toml")

    assert policies_file.read(parse_toml(output, "policies.toml")).objectives == EVERY


def test_of_no_objectives_nothing_is_exported(runner):
    assert runner.said(objectives_command(), "export") == ""
    assert yaml.safe_load(
        runner.said(objectives_command(), "export", "--format", "prometheus")
    ) == {"groups": []}
