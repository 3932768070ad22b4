"""Our request cycle and uvicorn's, each under the whole gateway, by turns in one run.

Both gateways run at once and are asked by turns, a fixed number of calls of 200 bytes each time:
whatever else the machine does falls on both. The figure is the median of the rounds' ratios, ours
over uvicorn's, with the quartiles of the rounds.
Usage: python -m tests.bench.request_cycle [--rounds 100] [--calls 500]
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

import uvloop

from proxy.api import serving
from proxy.api.arrival_deadlines import ArrivalPhase
from proxy.api.guarded_connection import GuardedConnection
from proxy.cli import main as cli
from tests.bench.gateway import CATALOG, free_port, gateway_key, process, request
from tests.bench.wire import Caller

_CALLERS = 64
_ARRIVING = frozenset({ArrivalPhase.HEADERS, ArrivalPhase.BODY})
_CYCLES = ("ours", "uvicorn")
_FIGURES = ("calls a second", "µs of processor a call")


class UvicornProtocol(GuardedConnection):
    """A caller's connection with uvicorn's own cycle, and our deadlines."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.deadlines.phase in _ARRIVING:
            self.deadlines.arm()

    def on_message_begin(self) -> None:
        self.deadlines.expect_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.deadlines.expect_body()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.deadlines.count_bytes(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.deadlines.expect_answer_taken()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.deadlines.expect_next_request()


def serve(cycle: str) -> None:
    """Be the gateway with one of the two cycles."""
    if cycle == "uvicorn":
        serving.ServerProtocol = UvicornProtocol  # type: ignore[assignment,misc]
    sys.argv = ["thriftgate", "serve"]
    cli.main()


def started(stack: ExitStack, folder: Path) -> list[tuple[int, int, bytes]]:
    """Both gateways on core 0, before one canned upstream on core 1: port, process id, call."""
    behind = free_port()
    upstream = [sys.executable, "-m", "tests.bench.gateway", "--upstream", str(behind)]
    stack.enter_context(process(upstream, 1, behind))
    catalog = folder / "catalog.toml"
    catalog.write_text(CATALOG.format(port=behind))
    found = []
    for cycle in _CYCLES:
        port = free_port()
        environment = {
            "THRIFTGATE_FOLDER": str(folder / cycle),
            "THRIFTGATE_CATALOG": str(catalog),
            "THRIFTGATE_PORT": str(port),
            "THRIFTGATE_PLANNING": "off",
        }
        key = gateway_key(environment)
        me = [sys.executable, "-m", "tests.bench.request_cycle", "--serve", cycle]
        pid = stack.enter_context(process(me, 0, port, **environment))
        found.append((port, pid, request(200, key, is_stream=False)))
    return found


async def asked(port: int, call: bytes, calls: int) -> None:
    """Ask so many calls, by many callers at once."""
    loop = asyncio.get_running_loop()
    finished = loop.create_future()
    answered = 0

    def done(_: float) -> bool:
        nonlocal answered
        answered += 1
        if answered == calls:
            finished.set_result(None)
        return answered <= calls - _CALLERS

    for _ in range(_CALLERS):
        await loop.create_connection(lambda: Caller(call, done), "127.0.0.1", port)
    await finished


def measured(port: int, pid: int, call: bytes, calls: int) -> list[float]:
    """The figures of one round."""
    before, began = on_processor(pid), time.perf_counter()
    uvloop.run(asked(port, call, calls))
    took = time.perf_counter() - began
    return [calls / took, (on_processor(pid) - before) / calls / 1e3]


def on_processor(pid: int) -> int:
    """Nanoseconds that a process's threads have run; psutil counts in hundredths of a second."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads)


def report(rounds: dict[str, list[list[float]]]) -> str:
    """Each figure's medians, and the ratio of the two with the quartiles of its rounds."""
    lines = []
    for at, figure in enumerate(_FIGURES):
        ours, theirs = ([each[at] for each in rounds[cycle]] for cycle in _CYCLES)
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        low, middle, high = quantiles(ratios, n=4)
        lines.append(
            f"{figure:<26}ours {median(ours):>8,.0f}   uvicorn {median(theirs):>8,.0f}"
            f"   ratio {middle:.3f} ({low:.3f} to {high:.3f})"
        )
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--calls", type=int, default=500)
    options.add_argument("--serve", choices=_CYCLES, help="be the gateway with this cycle")
    chosen = options.parse_args()
    if chosen.serve:
        serve(chosen.serve)
        return
    os.sched_setaffinity(0, {1})
    found: dict[str, list[list[float]]] = {cycle: [] for cycle in _CYCLES}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        targets = started(stack, folder)
        time.sleep(3)
        for number in range(chosen.rounds):
            both = list(zip(_CYCLES, targets, strict=True))
            for cycle, target in both if number % 2 else reversed(both):
                found[cycle].append(measured(*target, chosen.calls))
    print(report(found))  # noqa: T201 - a script's result


if __name__ == "__main__":
    main()
