"""A hit of the answer cache beside the same call sent to the upstream, and the upstream itself.

The gateway has one core to itself; the canned upstream and the load share the other. All rows are
of one gateway: ``sent`` is the same call with ``cache-control: no-store``.
Usage: python -m tests.bench.answer_cache [--seconds 3] [--rounds 3]
"""

import argparse
import os
import sys
import tempfile
from itertools import repeat
from pathlib import Path
from statistics import median

from tests.bench.gateway import CATALOG, command, gateway_key, process, processor, request, run
from tests.fakes.free_port import free_port

POLICY = '[[answer_cache]]\nname = "bench"\nreusable = true\nttl = "1d"\n'
#: Bytes of a prompt, and whether a stream is asked for.
FORMS = {"200 B": (200, False), "32 KB": (32 * 1024, False), "stream of 50": (200, True)}
_CONNECTIONS = 64


def measure_calls(port: int, pid: int, call: bytes, seconds: float) -> tuple[float, float, float]:
    """Milliseconds of one call alone; calls a second of many at once, and processor ms of one."""
    alone = median(run(port, repeat(call), 1, seconds)) * 1000
    before = processor(pid)
    answered = len(run(port, repeat(call), _CONNECTIONS, seconds)) / 0.8
    return alone, answered / seconds, (processor(pid) - before) / answered * 1000


def rows(folder: Path, seconds: float, rounds: int) -> dict[str, list[tuple[float, float, float]]]:
    """Every round's figures, by form and target."""
    behind, port = free_port(), free_port()
    (folder / "catalog.toml").write_text(CATALOG.format(port=behind))
    (folder / "policies.toml").write_text(POLICY)
    environment = {
        "THRIFTGATE_FOLDER": str(folder / "gateway"),
        "THRIFTGATE_CATALOG": str(folder / "catalog.toml"),
        "THRIFTGATE_POLICIES": str(folder / "policies.toml"),
        "THRIFTGATE_PORT": str(port),
    }
    key = gateway_key(environment)
    me = [sys.executable, "-m", "tests.bench.gateway", "--upstream", str(behind)]
    figures: dict[str, list[tuple[float, float, float]]] = {}
    with (
        process(me, 1, behind) as origin,
        process([command(), "serve"], 0, port, **environment) as pid,
    ):
        for _ in range(rounds):
            for name, (size, is_stream) in FORMS.items():
                hit = request(size, key, is_stream=is_stream)
                sent = hit.replace(b"\r\n", b"\r\ncache-control: no-store\r\n", 1)
                for target, (at, who, call) in {
                    "direct": (behind, origin, hit),
                    "sent": (port, pid, sent),
                    "hit": (port, pid, hit),
                }.items():
                    figures.setdefault(f"{name}, {target}", []).append(
                        measure_calls(at, who, call, seconds)
                    )
    return figures


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as folder:
        figures = rows(Path(folder), chosen.seconds, chosen.rounds)
    print(f"{'':<24}{'p50 c1, ms':>12}{'calls/s c64':>14}{'CPU ms':>10}")  # noqa: T201
    for name, measurements in figures.items():
        alone, rate, cpu = (median(values) for values in zip(*measurements, strict=True))
        print(f"{name:<24}{alone:>12.3f}{rate:>14,.0f}{cpu:>10.3f}")  # noqa: T201


if __name__ == "__main__":
    main()
