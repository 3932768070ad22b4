"""Beside a peer: SMG and the gateway by turns, one core each, one canned upstream, in one run.

Machines are noisy, so the targets take turns and each figure is the median of its rounds. The peer
is no dependency: install it anywhere (``pip install smg``) and name its program.
Usage: python -m tests.bench.beside PROGRAM [--rounds 7] [--seconds 3]
"""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from statistics import median

from tests.bench.gateway import (
    CATALOG,
    command,
    gateway_key,
    process,
    processor,
    request,
    run,
)
from tests.fakes.free_port import free_port

LOADS = {
    "200 B": (200, 64, False),
    "32 KB": (32 * 1024, 64, False),
    "stream": (200, 16, True),
    "200 B, one caller": (200, 1, False),
    "32 KB, one caller": (32 * 1024, 1, False),
}
Target = tuple[str, int, int, str, str]
"""Its name, port, process id, key, and the model's name there."""


def start_targets(stack: ExitStack, folder: Path, peer: str) -> list[Target]:
    """The upstream itself, the peer, and the gateway with planning on and off, each on core 0."""
    behind, port = free_port(), free_port()
    me = [sys.executable, "-m", "tests.bench.gateway", "--upstream", str(behind)]
    pid = stack.enter_context(process(me, 1, behind))
    targets: list[Target] = [("direct", behind, pid, "none", "bench")]
    options = ["--worker-urls", f"http://127.0.0.1:{behind}", "--policy", "round_robin"]
    listening = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error"]
    pid = stack.enter_context(process([peer, "launch", *options, *listening], 0, port))
    targets.append(("smg", port, pid, "none", "unknown"))
    catalog = folder / "catalog.toml"
    catalog.write_text(CATALOG.format(port=behind))
    for planning in ("off", "observe"):
        port = free_port()
        environment = {
            "THRIFTGATE_FOLDER": str(folder / planning),
            "THRIFTGATE_CATALOG": str(catalog),
            "THRIFTGATE_PORT": str(port),
            "THRIFTGATE_PLANNING": planning,
        }
        key = gateway_key(environment)
        pid = stack.enter_context(process([command(), "serve"], 0, port, **environment))
        targets.append((f"thriftgate, planning {planning}", port, pid, key, "bench"))
    return targets


def measure(target: Target, load: tuple[int, int, bool], seconds: float) -> list[float]:
    """Calls a second, microseconds of processor time of one, and of waiting (median)."""
    _, port, pid, key, model = target
    size, connections, is_stream = load
    call = request(size, key, is_stream=is_stream, model=model)
    before = processor(pid)
    timing = run(port, repeat(call), connections, seconds)
    answered = len(timing) / 0.8
    spent = processor(pid) - before
    return [answered / seconds, spent / answered * 1e6, median(timing) * 1e6]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("program", help="the peer's program, such as venv/bin/smg")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--seconds", type=float, default=3.0)
    chosen = options.parse_args()
    os.sched_setaffinity(0, {1})
    measurements: dict[str, dict[str, list[list[float]]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        targets = start_targets(stack, folder, chosen.program)
        time.sleep(3)
        for _ in range(chosen.rounds):
            for name, load in LOADS.items():
                for target in targets:
                    measurement = measure(target, load, chosen.seconds)
                    measurements.setdefault(name, {}).setdefault(target[0], []).append(measurement)
    for name, by_target in measurements.items():
        for target_name, rounds in by_target.items():
            rate, cost, wait = (median(figures) for figures in zip(*rounds, strict=True))
            best = max(figures[0] for figures in rounds)
            print(  # noqa: T201 - a script's result
                f"{name:<20}{target_name:<30}{rate:>8,.0f} calls/s (best {best:,.0f})"
                f"{cost:>8,.0f} µs of processor{wait:>8,.0f} µs p50"
            )
    print(json.dumps(measurements))  # noqa: T201 - the same for machines


if __name__ == "__main__":
    main()
