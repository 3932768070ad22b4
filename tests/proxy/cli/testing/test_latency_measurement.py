import json
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


def test_latency_prints_and_saves_one_json_document(runner, engine, tmp_path):
    file = tmp_path / "figures.json"
    printed = runner.said(bench, "latency", engine, *SMALL, "--json", "--save", str(file))
    document = json.loads(printed.splitlines()[0])  # its progress goes to stderr
    cell = document["cells"][0]

    assert document == json.loads(file.read_bytes())
    assert document["plan"]["model"] == "canned"
    assert (cell["calls"], cell["failed"], cell["output_tokens"]) == (4, 0, 8)
    assert cell["ttft_ms"]["p50"] <= cell["ttft_ms"]["p99"] <= cell["e2el_ms"]["max"]


def test_progress_names_the_run_and_each_combination(runner, engine):
    output = runner.said(bench, "latency", engine, *SMALL, "--prefix", "cold")

    assert f"canned at {engine}: 2 combinations, up to 13 calls of" in output
    assert "2/2 64 tokens cold, 2 callers: 4 calls, 0 failed" in output


@pytest.mark.slow
def test_latency_draws_a_png(runner, engine, tmp_path):
    pytest.importorskip("vl_convert", reason="the extra [plots] is not installed")
    file = tmp_path / "latency.png"
    runner.said(bench, "latency", engine, *SMALL, "--plot", str(file))

    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_file_that_cannot_be_written_is_named(runner, engine, tmp_path):
    file = tmp_path / "none" / "figures.json"

    assert str(file) in runner.error_of(bench, "latency", engine, *SMALL, "--save", str(file))


def test_more_prompts_than_memory_should_hold_are_refused(runner):
    error = runner.error_of(
        bench,
        "latency",
        "http://127.0.0.1:9",
        *("--prompt-tokens", "1000000", "--requests", "10000"),
    )

    assert "over 1 GiB" in error
