"""Boards and rules as operators get them."""

import pytest
import yaml

from proxy.cli.reports.dashboards import board_files, dashboards
from proxy.settings import Settings
from slo.policies.file import Policies
from tests.fakes.admission_harness import NOW, budget
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.objectives import objective


@pytest.fixture
def runner(tmp_path):
    return CommandRunner(tmp_path, NOW)


def commands(terminal):
    policies = Policies(budgets=(budget(),), objectives=(objective(),))
    return dashboards(terminal, Settings, lambda _: policies)


def test_rules_of_objectives_budgets_and_caches_are_one_file(runner):
    groups = yaml.safe_load(runner.said(commands, "prometheus"))["groups"]

    assert [group["name"] for group in groups] == [
        "thriftgate-objectives", "thriftgate-budgets", "thriftgate-caches",
    ]  # fmt: skip


def test_a_file_is_written_for_each_board_into_a_folder_that_is_made(runner, tmp_path):
    output = runner.said(commands, "grafana", "--out", str(tmp_path / "new" / "boards"))

    written = {path.name: path.read_text() for path in (tmp_path / "new" / "boards").iterdir()}
    assert written == dict(board_files())
    assert "Wrote 6 boards" in output


def test_a_folder_that_cannot_be_written_is_named(runner, tmp_path):
    (tmp_path / "file").write_text("")

    error = runner.error_of(commands, "grafana", "--out", str(tmp_path / "file"))

    assert f"Cannot write to {tmp_path / 'file'}" in error
    assert "--out" in error
