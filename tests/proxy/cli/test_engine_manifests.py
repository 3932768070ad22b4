import pytest
import yaml

from proxy.cli.engines import engines
from proxy.settings import Settings
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner

PROFILES = """
[engines.house]
engine = "vllm"
model = "org/m"

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
    said = runner.said(group, "manifest", "house", "--for", "kubernetes", "--file", file)

    assert said.startswith("# kubectl apply -f FILE\n")
    assert [each["kind"] for each in yaml.safe_load_all(said)] == ["Service", "StatefulSet"]


def test_manifest_prints_the_table_for_the_gateway(runner, file):
    said = runner.said(
        group, "manifest", "house", "--for", "ray-serve", "--attached", "--file", file
    )

    assert said.startswith("[engines.house]\n")


def test_manifest_of_attached_replicas_fails_with_the_reason(runner, file):
    _, said = runner.failing(group, "manifest", "remote", "--for", "kubernetes", "--file", file)

    assert "others run its replicas" in said
