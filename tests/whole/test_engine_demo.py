"""``thriftgate engine demo`` with real engines: its line of JSON, and Ctrl-C."""

import json
import re
import signal
import subprocess
from pathlib import Path

import psutil

from tests.fakes.figures import FIGURES
from tests.fakes.terminal_command import TERMINAL_COMMAND
from tests.fakes.tiny_engine import needs_wheel

_COMMAND = (*TERMINAL_COMMAND, "engine", "demo")
_PROMISED = {
    "engine", "tokens_per_s", "tokens_per_s_speculative", "acceptance_rate", "ttft_cold_ms",
    "ttft_warm_ms", "cached_tokens", "cost_usd_per_1k",
}  # fmt: skip


@needs_wheel
def test_the_engine_demo_ends_with_a_line_of_json_and_leaves_nothing_behind(
    tmp_path, record_property
):
    ended = subprocess.run(  # noqa: S603 - it is ours
        [*_COMMAND, "--exit", "--json", "--short", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={"TMPDIR": str(tmp_path), "PATH": ""},
    )

    assert ended.returncode == 0, ended.stderr
    line = json.loads(ended.stdout)
    record_property(FIGURES, _figures(line))
    assert set(line) >= _PROMISED
    assert line["cached_tokens"] > 0.9 * line["prompt_tokens"] > 1_000
    assert line["ttft_warm_ms"] < line["ttft_cold_ms"]
    assert 0.5 < line["acceptance_rate"] < 1
    assert 0.5 < line["ngram_acceptance_rate"] <= 1
    assert line["call"]["accepted_tokens"] > 0
    assert line["call"]["engine_cost_usd"] > 0
    assert line["call"]["provider_cost_usd"] > 0
    assert list(tmp_path.iterdir()) == []


def _figures(line):
    """The figures of a real engine, through the gateway and without it."""
    return (
        "llama.cpp, through the gateway (direct): TTFT of a new prompt"
        " {ttft_cold_ms:.0f} ms ({ttft_cold_direct_ms:.0f}), of a cached one"
        " {ttft_warm_ms:.0f} ms ({ttft_warm_direct_ms:.0f}); {tokens_per_s:.0f} tokens/s"
        " ({tokens_per_s_direct:.0f}), with a draft model {tokens_per_s_speculative:.0f}"
        " ({tokens_per_s_speculative_direct:.0f}), {acceptance_rate:.0%} accepted; n-grams"
        " {repeated_tokens_per_s_ngram:.0f} for {repeated_tokens_per_s:.0f} tokens/s,"
        " {ngram_acceptance_rate:.0%} accepted"
    ).format(**line)


@needs_wheel
def test_ctrl_c_ends_the_engine_demo_with_every_process_and_its_folder(tmp_path):
    with subprocess.Popen(  # noqa: S603 - it is ours
        [*_COMMAND, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(tmp_path), "PATH": "", "PYTHONUNBUFFERED": "1"},
    ) as demo:
        assert demo.stdout is not None
        try:
            opening = demo.stdout.readline() + demo.stdout.readline()
            engines = psutil.Process(demo.pid).children(recursive=True)
            demo.send_signal(signal.SIGINT)

            assert demo.wait(60) == 130
        finally:
            demo.kill()
        rest = demo.stdout.read()
    assert re.search(r"ready after \d+\.\d s: acme-parcel on port \d+", opening)
    assert rest.rstrip().endswith("Stopped.")
    assert len(engines) >= 3
    assert not any(engine.is_running() for engine in engines)
    assert list(Path(tmp_path).iterdir()) == []
