# ruff: noqa: T201 - a script prints; its URLs are its own
"""Calls of a gateway while people read its dashboard, beside the same gateway while nobody does.

Rounds take turns in one run, so the machine's noise falls on both; each figure is the median of its
rounds. The gateway's ledger is a SQLite file that ``dashboard_queries --keep`` filled.
A person who reads without a pause stands for several: ``--pause 1`` asks for a page each second.
Four callers that never pause fill both cores of a small machine, and whatever else runs is felt;
``--rate 400`` asks for so many calls a second.
Usage: python -m tests.bench.dashboard_beside_calls FILE [--rounds 5] [--seconds 10] [--pause 0]
    [--rate 0]
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlencode

from tests.bench.gateway import CATALOG, command, gateway_key, process, request, run
from tests.fakes.free_port import free_port

_TOKEN: Final = "a-token-of-a-bench-that-is-long-enough"
_MONTH: Final = "from=2026-10-28&to=2026-11-26"
#: What a page of costs, of savings, of caches, of latencies and of calls asks.
PATHS: Final = (
    f"/api/v1/costs?by=feature&tz=Europe/Berlin&{_MONTH}",
    f"/api/v1/savings?{_MONTH}",
    f"/api/v1/cache?by=model&tz=America/New_York&{_MONTH}",
    f"/api/v1/latency?{_MONTH}",
    "/api/v1/calls?limit=50",
)
_CONNECTIONS: Final = 4
_CONTEXT: Final = multiprocessing.get_context("spawn")


class PageReader:
    """A person who asks for one page's data after another, from a process of its own.

    Within the callers' process it would hold the interpreter's lock, and their calls would wait.
    """

    def __init__(self, port: int, pause: float) -> None:
        self._is_reading, self._is_over = _CONTEXT.Event(), _CONTEXT.Event()
        self._found: Queue[tuple[list[float], int]] = _CONTEXT.Queue()
        signs = (self._is_reading, self._is_over, self._found)
        self._process = _CONTEXT.Process(target=_read_pages, args=(port, pause, *signs))
        self._process.start()

    def begin(self) -> None:
        """Read until told to pause."""
        self._is_reading.set()

    def rest(self) -> None:
        """Ask for nothing more until told to begin."""
        self._is_reading.clear()

    def end(self) -> tuple[list[float], int]:
        """The seconds of each answer, and how many questions had none."""
        self._is_over.set()
        result = self._found.get(timeout=60)
        self._process.join(60)
        return result


def _read_pages(
    port: int,
    pause: float,
    is_reading: Event,
    is_over: Event,
    results: "Queue[tuple[list[float], int]]",
) -> None:
    base, seconds, unanswered, number = f"http://127.0.0.1:{port}", [], 0, 0
    opener = sign_in(base)
    while not is_over.is_set():
        if not is_reading.wait(0.1):
            continue
        began = time.perf_counter()
        try:
            with opener.open(base + PATHS[number % len(PATHS)], timeout=30) as answer:
                answer.read()
            seconds.append(time.perf_counter() - began)
        except HTTPError:  # 503: the database did not answer within the page's patience
            unanswered += 1
        number += 1
        time.sleep(pause)
    results.put((seconds, unanswered))


def sign_in(base: str) -> urllib.request.OpenerDirector:
    """An administrator's browser before the gateway with this URL."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    opener.open(f"{base}/admin/sign-in", urlencode({"token": _TOKEN}).encode(), timeout=30).close()
    return opener


def percentile(times: list[float], percent: int) -> float:
    """Milliseconds by nearest rank."""
    ranked = sorted(times)
    return ranked[-(-len(ranked) * percent // 100) - 1] * 1_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="the filled SQLite file, or the URL of a filled database")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=0.0)
    options = parser.parse_args()
    latencies: dict[str, list[list[float]]] = {"alone": [], "beside readers": []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _, port, key = start_gateway(stack, folder, options.file)
        reader, call = PageReader(port, options.pause), request(200, key, is_stream=False)
        for _ in range(options.rounds):
            for name, figures in latencies.items():
                if name != "alone":
                    reader.begin()
                times = run(port, call, _CONNECTIONS, options.seconds, options.rate)
                reader.rest()
                figures.append([percentile(times, p) for p in (50, 95, 99)] + [len(times)])
        page_seconds, unanswered = reader.end()
    for name, rounds in latencies.items():
        p50, p95, p99, calls = (median(each) for each in zip(*rounds, strict=True))
        waits = f"p50 {p50:.2f} ms  p95 {p95:.2f} ms  p99 {p99:.2f} ms"
        print(f"{name:<16} {waits}  {calls:,.0f} calls")
    p95 = percentile(page_seconds, 95)
    print(f"{len(page_seconds)} answers, p95 {p95:.0f} ms; {unanswered} without an answer")


def start_gateway(stack: ExitStack, folder: Path, file: str) -> tuple[int, int, str]:
    """The process id and the port of a gateway whose ledger is a file or a URL, and a key."""
    behind, port = free_port(), free_port()
    upstream = [sys.executable, "-m", "tests.bench.gateway", "--upstream", str(behind)]
    stack.enter_context(process(upstream, None, behind))
    catalog = folder / "catalog.toml"
    catalog.write_text(CATALOG.format(port=behind))
    environment = {
        "THRIFTGATE_FOLDER": str(folder / "gateway"),
        "THRIFTGATE_CATALOG": str(catalog),
        "THRIFTGATE_PORT": str(port),
        "THRIFTGATE_DATABASE_URL": file if "://" in file else f"sqlite:///{Path(file).resolve()}",
        "THRIFTGATE_ADMIN_TOKEN": _TOKEN,
    }
    key = gateway_key(environment)
    pid = stack.enter_context(process([command(), "serve"], None, port, **environment))
    return pid, port, key


if __name__ == "__main__":
    main()
