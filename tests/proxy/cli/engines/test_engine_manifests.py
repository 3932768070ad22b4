import json
from pathlib import Path

import pytest
import yaml

from proxy.cli.engines.engines import engines
from proxy.settings import Settings
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner

PROFILES = """
[engines.house]
engine = "vllm"
model = "org/m"

[engines.auto]
engine = "vllm"
model = "org/m"
port = 9000
speculative = "auto"

[engines.remote]
engine = "sglang"
served_name = "m"
replicas = ["http://gpu:30000"]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "engines.toml"
    path.write_text(PROFILES)
    return str(path)


@pytest.fixture
def runner(tmp_path):
    return CommandRunner(tmp_path, NOW)


def group(terminal):
    return engines(terminal, Settings)


def test_manifest_prints_yaml_that_a_pipe_can_take_and_how_to_apply_it(runner, file):
    output = runner.said(group, "manifest", "house", "--for", "kubernetes", "--file", file)

    assert output.startswith("# kubectl apply -f FILE\n")
    assert [part["kind"] for part in yaml.safe_load_all(output)] == ["Service", "StatefulSet"]


def test_manifest_prints_the_table_for_the_gateway(runner, file):
    output = runner.said(
        group, "manifest", "house", "--for", "ray-serve", "--attached", "--file", file
    )

    assert output.startswith("[engines.house]\n")


def test_manifest_of_attached_replicas_fails_with_the_reason(runner, file):
    _, output = runner.failure_of(
        group, "manifest", "remote", "--for", "kubernetes", "--file", file
    )

    assert "others run its replicas" in output


def test_manifest_takes_the_speculation_that_plan_shows_and_says_why(runner, file):
    own = lambda terminal: engines(terminal, lambda: Settings(folder=Path(file).parent))  # noqa: E731
    plan = json.loads(runner.said(own, "plan", "auto", "--file", file, "--json"))
    output = runner.said(own, "manifest", "auto", "--for", "kubernetes", "--file", file)
    _, stateful_set = yaml.safe_load_all(output)
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]

    argv, args = plan["replicas"][0]["argv"], container["args"]
    flag = "--speculative-config"
    assert args[args.index(flag) + 1] == argv[argv.index(flag) + 1]
    assert (
        f"# Speculation is auto, and this manifest takes: {plan['speculation_reason']}." in output
    )
