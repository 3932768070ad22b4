"""The process of ``thriftgate engine serve``."""

import asyncio
import logging
import random
import re
import signal
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import httpx2

from proxy.cli.engines.engine_changes import RollingChanges
from proxy.cli.engines.engine_status import change_lines
from proxy.cli.terminal import Terminal
from proxy.engines.adapters.adapter import EngineAdapter
from proxy.engines.adapters.launch_command import LaunchCommand
from proxy.engines.metrics.metrics_page import EngineMetrics, parse_metrics_page
from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.speculation_file import SAMPLE_S, SpeculationRecorder, write_record
from proxy.engines.state.state_file import (
    REPORT_INTERVAL_S,
    EngineStateFile,
    locked_profile,
    profile_folder,
)
from proxy.engines.supervision.replica_plan import ReplicaPlan
from proxy.engines.supervision.replica_process import (
    kernel_oom_kills,
    kill_leftovers,
    port_conflict,
    replica_process,
)
from proxy.engines.supervision.supervised_replica import SupervisionPorts, SupervisionSettings
from proxy.engines.supervision.supervisor import EngineSupervisor
from proxy.errors import OperatorError

_FAILED: Final = 1
#: Seconds that a page may take.
_DEADLINE_S: Final = 2.0
#: Samples after which the record is written.
_SAMPLES_PER_WRITE: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """The replicas of a profile, and what `engine serve` needs to run them.

    Attributes:
        replan: Reads the profile anew for a rolling change, which SIGHUP and a change of the
            watched files ask for; None if SIGHUP is to stop.
        adapter: Knows the names of the engine's metrics; None if no evidence is to be kept.
        follow: Runs beside the replicas and asks for changes; None for nothing.
        settings: Intervals and limits; environment and marker are set here.
    """

    profile: str
    commands: Sequence[LaunchCommand]
    folder: Path
    environment: Mapping[str, str]
    replan: Callable[[], ReplicaPlan] | None = None
    watched: Sequence[Path] = ()
    adapter: EngineAdapter | None = None
    recorder: SpeculationRecorder | None = None
    follow: Callable[[RollingChanges], Coroutine[None, None, None]] | None = None
    settings: SupervisionSettings = field(default_factory=SupervisionSettings)


def serve_engine(plan: EnginePlan, terminal: Terminal) -> int:
    """Run the replicas until told to stop; the exit status, 1 if all of them were given up.

    The first SIGTERM or SIGINT drains them, a second one ends them at once.

    Raises:
        OperatorError: If the profile is served already, or two replicas have one port.
    """
    folder = profile_folder(plan.folder, plan.profile).absolute()
    with locked_profile(folder):
        marker = f"{folder}/"
        if killed := kill_leftovers(marker):
            terminal.say(f"Ended {killed} processes that an earlier run left behind.")
        return asyncio.run(_serve(plan, terminal, folder, marker))


async def _serve(plan: EnginePlan, terminal: Terminal, folder: Path, marker: str) -> int:
    state = EngineStateFile(folder, plan.profile, terminal.now())
    settings = replace(plan.settings, environment=plan.environment, marker=marker)
    shown: dict[str, tuple[ProcessState, str]] = {}

    def record(report: ReplicaReport) -> None:
        state.write(supervisor.reports)
        if shown.get(report.name) != (report.state, report.reason):
            shown[report.name] = report.state, report.reason
            terminal.say(*change_lines(report))

    async with supervision_ports(terminal.now) as ports:
        try:
            supervisor = EngineSupervisor(plan.commands, folder, ports, settings, record)
        except ValueError as error:
            raise OperatorError(f"Profile {plan.profile}: {error}.") from error
        state.write(supervisor.reports)
        async with asyncio.TaskGroup() as tasks:
            changes = None
            if plan.replan is not None:
                changes = RollingChanges(plan.replan, plan.watched, supervisor, state, terminal)
            _handle_signals(supervisor, terminal, changes)
            beside = [tasks.create_task(task) for task in _rolling_tasks(plan, changes)]
            beside.append(tasks.create_task(_report_often(state, supervisor)))
            if plan.adapter is not None and plan.recorder is not None:
                sampling = keep_evidence(plan.recorder, plan.adapter, supervisor, folder, terminal)
                beside.append(tasks.create_task(sampling))
            await supervisor.run()
            for task in beside:
                task.cancel()
        state.write(supervisor.reports)
    if supervisor.is_lost:
        terminal.say("No replica is left: every one was given up.")
        return _FAILED
    terminal.say("All replicas have stopped.")
    return 0


async def _report_often(state: EngineStateFile, supervisor: EngineSupervisor) -> None:
    """Write the state also where nothing changes, so that its age says whether we go on."""
    while True:
        await asyncio.sleep(REPORT_INTERVAL_S)
        state.write(supervisor.reports)


def _rolling_tasks(
    plan: EnginePlan, changes: RollingChanges | None
) -> Iterator[Coroutine[None, None, None]]:
    if changes is not None:
        yield changes.run()
        if plan.follow is not None:
            yield plan.follow(changes)


def _handle_signals(
    supervisor: EngineSupervisor, terminal: Terminal, changes: RollingChanges | None
) -> None:
    """Stop on SIGTERM and SIGINT, at once on the second; a rolling change on SIGHUP."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, supervisor.kill)
        terminal.say("Draining; a second signal ends the replicas at once.")
        supervisor.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, changes.request if changes else stop)


@asynccontextmanager
async def supervision_ports(now: Callable[[], float]) -> AsyncIterator[SupervisionPorts]:
    """A block with what supervision needs of this machine."""
    async with health_probe() as probe:
        yield SupervisionPorts(
            probe=probe,
            start=replica_process,
            port_conflict=port_conflict,
            oom_kills=kernel_oom_kills,
            now=now,
            chance=random.random,
            sum_metrics=sum_metrics,
        )


@asynccontextmanager
async def health_probe() -> AsyncIterator[Callable[[str, float], Awaitable[int]]]:
    """A block with a function that sends a GET and returns the status; the body is not read.

    It raises OSError where there is no answer.
    """
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs every request

    async with httpx2.AsyncClient(trust_env=False, follow_redirects=False) as client:

        async def probe(url: str, timeout: float) -> int:  # noqa: ASYNC109 - the port's shape
            try:
                async with client.stream("GET", url, timeout=timeout) as answer:
                    return answer.status_code
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise OSError(type(error).__name__) from error

        yield probe


async def sum_metrics(url: str, names: Collection[str], seconds: float) -> float:
    """The sum of all series with these names on a page of Prometheus metrics.

    Raises:
        OSError: If there is no answer within so many seconds, or none of them on the page.
    """
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=seconds) as client:
            answer = await client.get(url)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OSError(type(error).__name__) from error
    pattern = re.compile(rf"(?:{'|'.join(map(re.escape, names))})(?:\{{.*\}})? ([0-9.eE+-]+)")
    values = [float(match[1]) for match in map(pattern.match, answer.text.splitlines()) if match]
    if answer.status_code != 200 or not values:
        raise OSError(f"{url} has none of {', '.join(names)}")
    return sum(values)


async def keep_evidence(
    recorder: SpeculationRecorder,
    adapter: EngineAdapter,
    supervisor: EngineSupervisor,
    folder: Path,
    terminal: Terminal,
) -> None:
    """Read the metrics of ready replicas every few seconds, and keep the record."""
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
