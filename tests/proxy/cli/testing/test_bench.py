from collections.abc import Iterator

import pytest

from proxy.cli.testing.bench import bench
from tests.fakes.admission_harness import NOW
from tests.fakes.canned_engine import canned_engine
from tests.fakes.cli_runner import CommandRunner

SMALL = ("--concurrency", "1,2", "--prompt-tokens", "64", "--requests", "4", "--output-tokens", "8")


@pytest.fixture
def runner(tmp_path):
    return CommandRunner(tmp_path, NOW)


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with canned_engine() as url:
        yield url


def test_latency_prints_a_table_and_a_chart(runner, engine):
    output = runner.said(bench, "latency", engine, *SMALL, "--goodput", "ttft:5000")
    rows = [line.split() for line in output.splitlines() if " cold " in line or " warm " in line]

    assert "within limits" in output.splitlines()[0]
    assert [row[:5] for row in rows[:2]] == [
        ["64", "cold", "1", "4", "0"],
        ["64", "warm", "1", "4", "0"],
    ]
    assert "TTFT, ms (log scale)" in output


def test_latency_fails_where_nothing_listens(runner):
    error = runner.error_of(bench, "latency", "http://127.0.0.1:9", *SMALL, "--model", "m")

    assert "does not answer" in error


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--concurrency", "0"),
        ("--concurrency", "many"),
        ("--prefix", "tepid"),
        ("--goodput", "speed:4"),
        ("--header", "no colon"),
        ("--extra-body", "[1]"),
    ],
)
def test_a_wrong_option_is_named(runner, option, value):
    code, text = runner._run(bench, ("latency", "http://127.0.0.1:9", option, value))

    assert code == 2
    assert option in text
