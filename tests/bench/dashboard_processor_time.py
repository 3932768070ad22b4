# ruff: noqa: T201 - a script prints; its URLs are its own
"""Processor time that the gateway's own process spends on a page of the dashboard.

Its reader process is not in it. Pages are asked for one after the other and nobody calls; what the
process spends on its own is taken off. The figure of a page is the median of three rounds.
The gateway's ledger is a SQLite file that ``dashboard_queries --keep`` filled.
Usage: python -m tests.bench.dashboard_processor_time FILE [--requests 20]
"""

import argparse
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.dashboard_beside_calls import PATHS, sign_in, start_gateway

_ROUNDS: Final = 3
_IDLE_S: Final = 5.0
#: Pages as HTML ask what their data does; the last two are the first page and the least one.
_PATHS: Final = (
    *PATHS,
    *(path.replace("/api/v1/", "/admin/") for path in PATHS),
    "/admin",
    "/api/v1/session",
)


def processor_s(pid: int) -> float:
    """Seconds of processor time that all threads of a process have taken, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid(3) numbers its clock


def page_ms(
    opener: urllib.request.OpenerDirector, url: str, pid: int, requests: int, idle: float
) -> float:
    """Milliseconds of a request.

    Args:
        opener: A browser that is signed in.
        url: The page.
        pid: The gateway's process.
        requests: Requests that are averaged.
        idle: Share of a processor that the process takes while nobody asks anything.
    """
    began, before = time.perf_counter(), processor_s(pid)
    for _ in range(requests):
        with opener.open(url, timeout=60) as answer:
            answer.read()
    spent = processor_s(pid) - before - idle * (time.perf_counter() - began)
    return spent / requests * 1_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="the filled SQLite file")
    parser.add_argument("--requests", type=int, default=20)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pid, port, _ = start_gateway(stack, folder, options.file)
        base = f"http://127.0.0.1:{port}"
        opener = sign_in(base)
        for path in _PATHS * 2:  # imports, templates and caches of the first requests
            opener.open(base + path, timeout=60).close()
        time.sleep(_IDLE_S)
        before = processor_s(pid)
        time.sleep(_IDLE_S)
        idle = (processor_s(pid) - before) / _IDLE_S
        for path in _PATHS:
            rounds = [
                page_ms(opener, base + path, pid, options.requests, idle) for _ in range(_ROUNDS)
            ]
            print(f"{path:<72} {median(rounds):6.2f} ms", flush=True)


if __name__ == "__main__":
    main()
