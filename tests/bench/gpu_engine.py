# ruff: noqa: T201 - a script prints its result
"""vLLM on a GPU, started by profiles and measured directly and behind the gateway.

For each case it starts ``thriftgate engine serve`` and ``thriftgate serve``, runs ``thriftgate
bench latency`` and prints one line for each combination. The large model has the shape of an 8B
Llama and vLLM's dummy weights: nothing is downloaded, times and memory are real, its text is not.

Usage: python -m tests.bench.gpu_engine FOLDER [CASE …] [--program PROGRAM] [--version N]
       [--env NAME=VALUE …] [--extra-args ARGS] [--trained FOLDER] [--start-seconds N]
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from proxy.engines.adapters.vllm import VLLM
from proxy.engines.metrics.metrics_page import EngineMetrics, parse_metrics_page
from tests.bench.gpu_engine_cases import CASES, ProfileCase, engines_text, write_models

_THRIFTGATE: Final = (sys.executable, "-c", "from proxy.cli.main import main; main()")
#: Says in the log of `engine serve` that a replica ended by itself.
_RESTART: Final = ": restarting: "
_STOP_S: Final = 60.0
#: Text that the tiny model of `thriftgate engine demo` is trained on.
_ANSWERS: Final = Path(__file__).parents[2] / "proxy/tools/engine_demo/model/answers.toml"
_QUESTIONS: Final = 60
_KEY: Final = re.compile(r"tg-[\w-]{20,}")
_BODY: Final = json.dumps({"ignore_eos": True, "temperature": 0})
_HEADER: Final = (
    f"{'case':<18} {'by':<8} {'prompt':>6} {'prefix':<6} {'callers':>7} {'calls':>5} {'fail':>4}"
    f" {'TTFT p50':>9} {'ITL p50':>8} {'tokens/s':>9} {'cached':>7} {'accepted':>8}"
)


@dataclass(frozen=True, slots=True)
class GpuSetup:
    """A folder, the ports of engine and gateway, and the options of the run."""

    folder: Path
    options: argparse.Namespace
    engine_port: int = 8195
    gateway_port: int = 8196

    @property
    def engine_url(self) -> str:
        """URL of vLLM itself."""
        return f"http://127.0.0.1:{self.engine_port}"

    def environment(self, case: str, **more: str) -> dict[str, str]:
        """The environment of our commands for a case."""
        folder = self.folder / case
        return {
            **os.environ,  # noqa: TID251 - the children need what we have
            "THRIFTGATE_FOLDER": str(folder / "state"),
            "THRIFTGATE_ENGINES": str(folder / "engines.toml"),
            "THRIFTGATE_PORT": str(self.gateway_port),
            **more,
        }


@contextmanager
def _command(words: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[Any]:
    """One of our commands while the block runs; then it is told to stop."""
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*_THRIFTGATE, *words], env=dict(environment), stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        for _ in range(2):  # the second signal cuts the drain short
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_S / 2)
        process.kill()
        process.wait()


def _wait_for(url: str, process: Any, seconds: float, log: Path) -> float:
    """Seconds until the page answered 200.

    Raises:
        TimeoutError: If it did not, or its process ended, or a replica did.
    """
    started = time.monotonic()
    while (waited := time.monotonic() - started) < seconds and process.poll() is None:
        with suppress(httpx2.HTTPError):
            if httpx2.get(url, timeout=5).status_code == 200:
                return waited
        if _RESTART in log.read_text():
            break
        time.sleep(0.2)
    raise TimeoutError(url)


def _metrics(machine: GpuSetup) -> EngineMetrics:
    return parse_metrics_page(httpx2.get(f"{machine.engine_url}/metrics").text, VLLM)


def _acceptance(before: EngineMetrics, after: EngineMetrics) -> float | None:
    """Accepted ÷ draft tokens between two pages; None where nothing was drafted."""
    drafted, accepted = (
        (after.value(name) or 0) - (before.value(name) or 0)
        for name in ("spec_draft_tokens", "spec_accepted_tokens")
    )
    return accepted / drafted if drafted else None


def _bench(machine: GpuSetup, case: ProfileCase, run: int, key: str) -> None:
    """One run of ``bench latency``; a line for each combination, and its document in the folder."""
    by, words = case.runs[run]
    if not words:
        _ask_own_questions(machine, case)
        return
    url = machine.engine_url if by == "direct" else f"http://127.0.0.1:{machine.gateway_port}"
    file = machine.folder / case.name / f"{run}-{by}.json"
    options = ["--model", "chat", "--extra-body", _BODY, "--save", str(file), "--json"]
    if by == "gateway":
        options += ["--key-env", "BENCH_KEY"]
    before = _metrics(machine)
    done = subprocess.run(  # noqa: S603 - our own command
        [*_THRIFTGATE, "bench", "latency", url, *words.split(), *options],
        env=machine.environment(case.name, BENCH_KEY=key),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(case.name, by, "failed:", done.stderr[-600:], flush=True)
        return
    accepted = _acceptance(before, _metrics(machine))
    for cell in json.loads(done.stdout)["cells"]:
        print(_line(case.name, by, cell, accepted), flush=True)


def _ask_own_questions(machine: GpuSetup, case: ProfileCase) -> None:
    """Ask a trained model questions of its training, one after the other."""
    topics = tomllib.loads(_ANSWERS.read_text())["topic"]
    questions = [ask for topic in topics for ask in topic["asks"]]
    before, started, tokens = _metrics(machine), time.monotonic(), 0
    for question in questions[:_QUESTIONS]:
        body = {
            "model": "chat",
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": 96,
        }
        answer = httpx2.post(f"{machine.engine_url}/v1/chat/completions", json=body, timeout=60)
        tokens += answer.raise_for_status().json()["usage"]["completion_tokens"]
    seconds = time.monotonic() - started
    accepted = _acceptance(before, _metrics(machine))
    print(
        f"{case.name:<18} {_QUESTIONS} questions of its training: {tokens:,} tokens,"
        f" {tokens / seconds:,.0f} tokens/s with prefill"
        f"{'' if accepted is None else f', {accepted:.1%} accepted'}",
        flush=True,
    )


def _line(case: str, by: str, cell: Mapping[str, Any], accepted: float | None) -> str:
    def p50(name: str) -> str:
        return f"{cell[name]['p50']:.1f}" if cell[name] else "?"

    cached = cell["cached_share"]
    return (
        f"{case:<18} {by:<8} {cell['shape']['prompt_tokens']:>6}"
        f" {cell['shape']['prefix']:<6} {cell['shape']['concurrency']:>7} {cell['calls']:>5}"
        f" {cell['failed']:>4} {p50('ttft_ms'):>9} {p50('itl_ms'):>8}"
        f" {cell['output_tokens_per_s'] or 0:>9,.0f}"
        f" {'?' if cached is None else format(cached, '.0%'):>7}"
        f" {'' if accepted is None else format(accepted, '.1%'):>8}"
    )


def _measure(machine: GpuSetup, case: ProfileCase) -> None:
    """Start engine and gateway for a case, and measure it."""
    folder, environment = machine.folder / case.name, machine.environment(case.name)
    engine_log, gateway_log = folder / "engine.log", folder / "gateway.log"
    with _command(["engine", "serve", "chat"], environment, engine_log) as engine:
        health = f"{machine.engine_url}/health"
        started = _wait_for(health, engine, machine.options.start_seconds, engine_log)
        with _command(["serve"], environment, gateway_log) as gateway:
            _wait_for(f"http://127.0.0.1:{machine.gateway_port}/readyz", gateway, 60, gateway_log)
            page = _metrics(machine)
            print(
                f"{case.name}: ready after {started:.0f} s; KV cache of"
                f" {page.cache_tokens or 0:,} tokens; metrics missing: {list(page.missing)}"
            )
            match = _KEY.search(gateway_log.read_text())
            for run in range(len(case.runs)):
                _bench(machine, case, run, match[0] if match else "")


def _show_failure(machine: GpuSetup, case: ProfileCase) -> None:
    """Start an engine that cannot start, and print what the user sees."""
    folder, environment = machine.folder / case.name, machine.environment(case.name)
    log = folder / "engine.log"
    started = time.monotonic()
    with _command(["engine", "serve", "chat"], environment, log) as engine:
        health = f"{machine.engine_url}/health"
        with suppress(TimeoutError):
            _wait_for(health, engine, machine.options.start_seconds, log)
        seconds = time.monotonic() - started
        seen = subprocess.run(  # noqa: S603 - our own command
            [*_THRIFTGATE, "engine", "status"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    print(f"{case.name}: after {seconds:.0f} s", log.read_text()[-6_000:])
    print(seen.stdout, seen.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named cases, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="gets models, logs and documents")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--program", default="vllm serve", help="what starts vLLM")
    parser.add_argument("--version", default="0.33", help="its version, as profiles give it")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--extra-args", default="", help="further arguments of vLLM")
    parser.add_argument(
        "--trained", type=Path, help="folder of `target` and `draft`, trained, for trained-* cases"
    )
    parser.add_argument("--start-seconds", type=float, default=400.0, help="longest start of vLLM")
    options = parser.parse_args(arguments)
    machine = GpuSetup(options.folder, options)
    machine.folder.mkdir(parents=True, exist_ok=True)
    models = write_models(machine.folder, options.trained)
    print(_HEADER)
    for name in options.cases or CASES:
        case = CASES[name]
        (machine.folder / name).mkdir(exist_ok=True)
        (machine.folder / name / "state").mkdir(exist_ok=True, mode=0o700)
        text = engines_text(
            case,
            models,
            port=machine.engine_port,
            program=shlex.split(options.program),
            version=options.version,
            env=dict(each.split("=", 1) for each in options.env),
            extra_args=shlex.split(options.extra_args),
        )
        (machine.folder / name / "engines.toml").write_text(text)
        try:
            (_measure if case.runs else _show_failure)(machine, case)
        except TimeoutError as error:
            print(f"{name}: {error} did not answer; see {machine.folder / name}", flush=True)


if __name__ == "__main__":
    main()
