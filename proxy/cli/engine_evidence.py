"""Evidence of speculation that ``thriftgate engine serve`` gathers from its replicas' metrics."""

import asyncio
from pathlib import Path
from typing import Final

import httpx2

from proxy.cli.terminal import Terminal
from proxy.engines.adapters.adapter import EngineAdapter
from proxy.engines.metrics.metrics_page import EngineMetrics, parse_metrics_page
from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.speculation_file import SAMPLE_S, SpeculationRecorder, write_record
from proxy.engines.supervision.supervisor import EngineSupervisor

#: Seconds that a page may take.
_DEADLINE_S: Final = 2.0
#: Samples after which the record is written.
_SAMPLES_PER_WRITE: Final = 6


async def keep_evidence(
    recorder: SpeculationRecorder,
    adapter: EngineAdapter,
    supervisor: EngineSupervisor,
    folder: Path,
    terminal: Terminal,
) -> None:
    """Read the metrics of ready replicas every few seconds, and keep the record, for ever."""
    count = 0
    try:
        while True:
            ready = [report for report in supervisor.reports if report.state is ProcessState.READY]
            recorder.note(ready, await read_pages(ready, adapter), terminal.now())
            count += 1
            if count % _SAMPLES_PER_WRITE == 0:
                write_record(folder, recorder.record)
            await asyncio.sleep(SAMPLE_S)
    finally:
        write_record(folder, recorder.record)


async def read_pages(
    reports: list[ReplicaReport], adapter: EngineAdapter
) -> dict[str, EngineMetrics]:
    """The metrics of replicas by name; those that do not answer well are left out."""
    async with httpx2.AsyncClient(trust_env=False, timeout=_DEADLINE_S) as client:
        pages = await asyncio.gather(*(_read_page(client, report, adapter) for report in reports))
    names = (report.name for report in reports)
    return {name: page for name, page in zip(names, pages, strict=True) if page is not None}


async def _read_page(
    client: httpx2.AsyncClient, report: ReplicaReport, adapter: EngineAdapter
) -> EngineMetrics | None:
    try:
        async with asyncio.timeout(_DEADLINE_S):
            answer = await client.get(report.metrics_url)
        return parse_metrics_page(answer.text, adapter) if answer.status_code == 200 else None
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError):
        return None
