"""One replica of an engine from its start to its end, over restarts.

::

    starting ─▶ ready ─▶ draining ─▶ stopped
       │  ▲       │
       ▼  │       ▼           crash_loop   early exits in a row: not started again
     restarting ◀─┘  ─────▶   failed       its program cannot be started at all

An unexpected end leads to ``restarting``; so does a start that takes too long, a port that is
taken, and a health check that stays unanswered. A stop leads to ``draining`` from anywhere.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from proxy.engines.adapters.launch_command import LaunchCommand
from proxy.engines.state.replica_report import FINAL_STATES, ProcessState, ReplicaReport
from proxy.engines.supervision.engine_log import EngineLog
from proxy.engines.supervision.replica_process import MARKER, ProcessExit
from proxy.engines.supervision.restart_policy import EngineExit, RestartPolicy, describe_exit
from proxy.engines.supervision.unknown_flags import flags_left_out, unknown_flags, without_flags

#: Lines of the log that are shown with an unexpected end.
_LAST_LINES: Final = 12
_MAX_EXITS: Final = 50
#: Errors of a start that another attempt would meet again.
_LASTING_ERRORS: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR, errno.EINVAL}
)


class EngineProcess(Protocol):
    """A running engine; ``replica_process`` has the methods' contracts."""

    pid: int
    exit: ProcessExit | None

    async def wait(self) -> ProcessExit:
        """Its end, once all of its processes are gone."""
        ...

    def stop(self, seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after so many seconds."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...


async def _no_metrics(url: str, names: Collection[str], seconds: float) -> float:
    raise OSError(f"nothing reads {url}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionPorts:
    """Everything that supervision needs from outside.

    Attributes:
        probe: Sends a GET to a URL within so many seconds; returns the status. It raises OSError
            where there is no answer.
        start: Starts an engine for the length of a block, as ``replica_process`` does.
        port_conflict: Reason that nothing can listen at a URL; "" if it can.
        oom_kills: Processes that the kernel has killed for lack of memory; None if not counted.
        now: Seconds since the epoch.
        chance: A random number from 0 to 1.
        sum_metrics: Sends a GET to a URL of Prometheus metrics within so many seconds; returns the
            sum of all series with these names. It raises OSError where there is no answer.
    """

    probe: Callable[[str, float], Awaitable[int]]
    start: Callable[
        [tuple[str, ...], Mapping[str, str], EngineLog], AbstractAsyncContextManager[EngineProcess]
    ]
    port_conflict: Callable[[str], str]
    oom_kills: Callable[[], int | None]
    now: Callable[[], float]
    chance: Callable[[], float]
    sum_metrics: Callable[[str, Collection[str], float], Awaitable[float]] = _no_metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionSettings:
    """Intervals and limits of supervision.

    Attributes:
        environment: Environment of every engine, before its own.
        marker: Begins the value of ``MARKER`` in the environment of every engine.
        restart: The restart policy; None for the usual one at the command's time to start.
        start_interval_s: Seconds between health checks until the first good one.
        health_interval_s: Seconds between health checks from then on.
        health_timeout_s: Seconds in which a check has to be answered.
        max_missed_checks: Missed checks in a row after which an engine counts as dead.
        hung_grace_s: Seconds between SIGTERM and SIGKILL for an engine that is not healthy.
        withdrawal_s: Seconds between leaving ``ready`` and SIGTERM in a rolling change, so that
            callers learn of it before it closes its port.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    marker: str = ""
    restart: RestartPolicy | None = None
    start_interval_s: float = 0.25
    health_interval_s: float = 1.0
    health_timeout_s: float = 5.0
    max_missed_checks: int = 3
    hung_grace_s: float = 5.0
    withdrawal_s: float = 2.0


class SupervisedReplica:
    """Keeps one replica running.

    Args:
        on_change: Called with the report after each change of state.

    Attributes:
        command: The command that is to start it; flags that its engine does not know are left out
            of it where answers are the same without them.
        report: Its present state.
    """

    def __init__(
        self,
        command: LaunchCommand,
        log: EngineLog,
        ports: SupervisionPorts,
        settings: SupervisionSettings,
        on_change: Callable[[ReplicaReport], object],
    ) -> None:
        self.command = command
        self._launched = command
        self._log = log
        self._ports = ports
        self._settings = settings
        self._policy = settings.restart or RestartPolicy.for_start(command.start_seconds)
        self._on_change = on_change
        self._exits: deque[EngineExit] = deque(maxlen=_MAX_EXITS)
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()
        self._withdrawal = 0.0
        self._changed = asyncio.Event()
        self.report = ReplicaReport(
            name=replica_name(command),
            base_url=command.base_url,
            metrics_url=command.metrics_url,
            state=ProcessState.STARTING,
            since=ports.now(),
            log=str(log.path),
            replica=command.replica,
            speculation=command.speculation,
            kv_dtype=command.kv_dtype,
            weights=command.weights,
        )

    def stop(self, *, withdrawal: float = 0.0) -> None:
        """Drain and end it; ``withdrawal`` seconds pass before SIGTERM. Returns at once."""
        self._withdrawal = withdrawal
        self._stopping.set()

    def kill(self) -> None:
        """End it without draining; returns at once."""
        self._killing.set()
        self._stopping.set()

    async def wait_for(self, states: Collection[ProcessState]) -> ProcessState:
        """The state, once it is one of these."""
        while self.report.state not in states:
            await self._changed.wait()
        return self.report.state

    async def run(self) -> None:
        """Keep it running until it is stopped or given up."""
        try:
            await self._keep_running()
        finally:
            self._log.close()

    async def _keep_running(self) -> None:
        while not self._stopping.is_set():
            ready_s = 0.0
            try:
                why, ready_s = await self._run_once()
                if not ready_s and self._leave_out_unknown_flags():
                    continue
            except OSError as error:
                why = f"{self.command.argv[0]} cannot be started: {error.strerror or error}"
                if error.errno in _LASTING_ERRORS:
                    self._enter(ProcessState.FAILED, why)
                    return
            if self._stopping.is_set():
                break
            if (delay := self._restart_delay(ready_s)) is None:
                count = self._policy.max_exits
                why = f"{why}. It ended {count} times before it worked, and is not started again"
                self._enter(ProcessState.CRASH_LOOP, why)
                return
            self._enter(ProcessState.RESTARTING, f"{why}; next start in {delay:.1f} s")
            await _first_of(asyncio.sleep(delay), self._stopping.wait())
            self.report = replace(self.report, restarts=self.report.restarts + 1)
        self._enter(ProcessState.STOPPED)

    def _leave_out_unknown_flags(self) -> bool:
        """True if the engine ended over flags that it can be started without, each at most once."""
        if self._stopping.is_set():
            return False
        fewer = without_flags(self._launched, unknown_flags(self._log.tail()))
        if fewer is None:
            return False
        self._launched = fewer
        left_out = flags_left_out(self.command, fewer)
        self.report = replace(self.report, left_out=left_out, speculation=fewer.speculation)
        self._enter(ProcessState.STARTING, f"its engine does not know {', '.join(left_out)}")
        return True

    def _restart_delay(self, ready_s: float) -> float | None:
        """Seconds until the next start after an unexpected end; None in a crash loop."""
        now = asyncio.get_running_loop().time()
        self._exits.append(EngineExit(now, ready_s))
        return self._policy.next_delay(self._exits, now, self._ports.chance())

    async def _run_once(self) -> tuple[str, float]:
        """Run the engine until it ends: the reason, and the seconds for which it was ready.

        Raises:
            OSError: If its program cannot be started.
        """
        self._log.begin_run()
        self._enter(ProcessState.STARTING)
        if why := self._ports.port_conflict(self.command.health_url):
            return why, 0.0
        settings = self._settings
        marker = {MARKER: f"{settings.marker}{self.report.name}"}
        environment = {**settings.environment, **self.command.env, **marker}
        kills = self._ports.oom_kills()
        async with self._ports.start(self._launched.argv, environment, self._log) as process:
            self.report = replace(self.report, pid=process.pid)
            self._enter(ProcessState.STARTING)
            trouble = await self._watch(process, self._poll_until_healthy())
            if trouble is not None:
                return trouble or self._exit_reason(process.exit, kills), 0.0
            self._enter(ProcessState.READY)
            began = asyncio.get_running_loop().time()
            trouble = await self._watch(process, self._poll_while_healthy())
            ready_s = asyncio.get_running_loop().time() - began
            return trouble or self._exit_reason(process.exit, kills), ready_s

    async def _watch(
        self, process: EngineProcess, check: Coroutine[Any, Any, str | None]
    ) -> str | None:
        """Await the check, unless the engine ends or has to be stopped before.

        Returns:
            None if it is healthy; else it has ended, for a reason that is "" if by itself.
        """
        why: str | None
        first, why = await _first_of(process.wait(), self._stopping.wait(), check)
        if first == 0:
            return ""
        if first == 1:
            await self._drain(process)
            return ""
        if why is not None:
            process.stop(self._settings.hung_grace_s)
            await process.wait()
        return why

    async def _drain(self, process: EngineProcess) -> None:
        """Let calls under way finish, and end the engine."""
        self._enter(ProcessState.DRAINING)
        killing = self._killing.wait
        await _first_of(process.wait(), asyncio.sleep(self._withdrawal), killing())
        seconds = self.command.drain_seconds
        if self.command.busy_metrics:
            await _first_of(process.wait(), self._poll_while_busy(seconds), killing())
            seconds = min(seconds, self._settings.hung_grace_s)
        if not self._killing.is_set():
            process.stop(seconds)
            await _first_of(process.wait(), killing())
        process.kill()
        await process.wait()

    async def _poll_while_busy(self, seconds: float) -> None:
        """Return once no call is under way or known of, and after so many seconds at most."""
        ask = self.command.metrics_url, self.command.busy_metrics, self._settings.health_timeout_s
        with suppress(OSError):  # among them TimeoutError
            async with asyncio.timeout(seconds):
                while await self._ports.sum_metrics(*ask):  # noqa: ASYNC110 - another process ends
                    await asyncio.sleep(self._settings.start_interval_s)

    async def _poll_until_healthy(self) -> str | None:
        """None once it is healthy; the reason if that takes too long."""
        limit = self.command.start_seconds
        try:
            async with asyncio.timeout(limit):
                while not await self._is_healthy():  # noqa: ASYNC110 - another process answers
                    await asyncio.sleep(self._settings.start_interval_s)
        except TimeoutError:
            return f"it was not healthy within {limit:g} s at {self.command.health_url}"
        return None

    async def _poll_while_healthy(self) -> str:
        """The reason that it counts as dead, once it does."""
        missed = 0
        while missed < self._settings.max_missed_checks:
            await asyncio.sleep(self._settings.health_interval_s)
            missed = 0 if await self._is_healthy() else missed + 1
        return f"its health check failed {missed} times in a row at {self.command.health_url}"

    async def _is_healthy(self) -> bool:
        timeout = self._settings.health_timeout_s
        try:
            async with asyncio.timeout(timeout):
                return await self._ports.probe(self.command.health_url, timeout) == 200
        except OSError:  # among them TimeoutError
            return False

    def _exit_reason(self, end: ProcessExit | None, kills_before: int | None) -> str:
        """Says how it ended by itself, and of which exception."""
        kills = self._ports.oom_kills()
        more = None if kills is None or kills_before is None else kills - kills_before
        text = describe_exit(end.status if end else None, oom_kills=more)
        if end and (end.status or 0) > 0 and (cause := self._log.last_exception()):
            text = f"{text}: {cause}"
        remaining = f"; {end.remaining} of its processes remain" if end and end.remaining else ""
        return f"{text}{remaining}"

    def _enter(self, state: ProcessState, reason: str = "") -> None:
        has_ended = state in {ProcessState.RESTARTING, *FINAL_STATES}
        shows_output = has_ended and state is not ProcessState.STOPPED
        self.report = replace(
            self.report,
            state=state,
            since=self.report.since if state is self.report.state else self._ports.now(),
            pid=0 if has_ended else self.report.pid,
            reason=reason,
            last_lines=self._log.tail(_LAST_LINES) if shows_output else (),
        )
        self._changed.set()
        self._changed = asyncio.Event()
        self._on_change(self.report)


def replica_name(command: LaunchCommand) -> str:
    """The port of a command's health check; two engines of a machine never share it."""
    return str(urlsplit(command.health_url).port or 80)


async def _first_of(*works: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """The index and the result of the work that ends first; the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = next(index for index, task in enumerate(tasks) if task.done())
        for task in tasks:
            task.cancel()
    return first, tasks[first].result()
