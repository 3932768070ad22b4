"""The share of `thriftgate bench latency` in its figures, beside a server that answers at once.

The canned server of the gateway's bench runs in a process of its own: an answer has 47 tokens, one
in each event, without pauses. Whatever time passes is that of client, sockets and server.
"""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop

from proxy.tools.bench.chat_client import BenchTarget, ChatClient
from proxy.tools.bench.latency_run import LatencyPlan, LatencyRun
from proxy.tools.bench.latency_summary import CellFigures
from proxy.tools.bench.prompts import PrefixState
from proxy.upstream.http import open_transport
from tests.bench.gateway import wait_until_listening
from tests.bench.wire import upstream
from tests.fakes.free_port import free_port

CALLERS = (1, 16, 64)
CALLS = 4000


@contextmanager
def canned_server() -> Iterator[str]:
    """The base URL of the canned server."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(port,))
    process.start()
    try:
        wait_until_listening(port, lambda: process.exitcode)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.join(30)


def _serve(port: int) -> None:
    uvloop.run(upstream(port))


async def measure(url: str) -> list[CellFigures]:
    """Figures by number of callers; processor time is that of this process."""
    plan = LatencyPlan(
        model="bench",
        concurrency=CALLERS,
        prompt_tokens=(128,),
        prefixes=(PrefixState.COLD,),
        output_tokens=47,
        calls=CALLS,
        seconds=60.0,
        warmup=10,
        shared_share=0.9,
        limits_ms={},
        seed="bench",
    )
    cells: list[CellFigures] = []
    async with open_transport({}, connections=max(CALLERS), connect_timeout=5) as transport:
        client = ChatClient(transport, BenchTarget(base_url=url), time.perf_counter)
        run = LatencyRun(client, plan, time.perf_counter, time.process_time)
        await run.measure(cells.append)
    return cells


def report(cells: list[CellFigures]) -> str:
    """A table in Markdown."""
    lines = [
        "| callers | TTFT p50, p99 | E2EL p50, p99 | events/s | processor time of a call |",
        "|--:|--:|--:|--:|--:|",
    ]
    for cell in cells:
        assert cell.ttft_ms is not None
        assert cell.e2el_ms is not None
        cpu_ms = cell.client_load * cell.seconds / cell.calls * 1000
        ttft, e2el = cell.ttft_ms, cell.e2el_ms
        lines.append(
            f"| {cell.shape.concurrency} | {ttft.p50:.2f}, {ttft.p99:.2f} ms"
            f" | {e2el.p50:.2f}, {e2el.p99:.2f} ms"
            f" | {cell.requests_per_s * 47:,.0f} | {cpu_ms:.2f} ms |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    with canned_server() as url:
        figures = uvloop.run(measure(url))
    print(report(figures))  # noqa: T201 - what it is run for
