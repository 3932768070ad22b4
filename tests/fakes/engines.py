"""Engines for a test: commands of the fake one, and processes that a test plays itself."""

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from proxy.cli.engines.engine_processes import sum_metrics
from proxy.engines.adapters.launch_command import LaunchCommand
from proxy.engines.supervision.engine_log import EngineLog
from proxy.engines.supervision.replica_plan import ReplicaPlan
from proxy.engines.supervision.replica_process import ProcessExit, port_conflict, replica_process
from proxy.engines.supervision.restart_policy import RestartPolicy
from proxy.engines.supervision.supervised_replica import SupervisionPorts, SupervisionSettings
from tests.fakes import fake_engine
from tests.fakes.free_port import free_port

#: Real processes, supervised at a quick pace.
QUICK = SupervisionSettings(
    environment={"PATH": os.environ.get("PATH", "")},  # noqa: TID251 - what a program needs
    restart=RestartPolicy(first_delay_s=0.02, max_delay_s=0.05, max_exits=3, stable_s=30),
    start_interval_s=0.02,
    health_interval_s=0.05,
    hung_grace_s=0.1,
    withdrawal_s=0.1,
)
_PATIENCE_S = 60.0


def engine_argv(*flags: str) -> tuple[str, ...]:
    """The command line of the fake engine."""
    return (sys.executable, "-I", "-S", fake_engine.__file__, *flags)


def engine_command(
    *flags: str, port: int = 0, start: float = 60.0, drain: float = 30.0, replica: int = 0
) -> LaunchCommand:
    """The command of a fake engine on a free port."""
    port = port or free_port()
    return LaunchCommand(
        program=engine_argv("--port", str(port), *flags),
        base_url=f"http://127.0.0.1:{port}/v1",
        health_url=f"http://127.0.0.1:{port}/health",
        metrics_url=f"http://127.0.0.1:{port}/metrics",
        start_seconds=start,
        drain_seconds=drain,
        replica=replica,
    )


def engine_plan(
    *flags: str, count: int = 1, stops_first: bool = False, first_port: int = 0
) -> ReplicaPlan:
    """A plan of fake engines with these flags, on ports that are free now."""

    def build(number: int, port: int) -> LaunchCommand:
        return engine_command(*flags, port=port, replica=number)

    return ReplicaPlan(
        count=count, first_port=first_port or free_port(), build=build, stops_first=stops_first
    )


async def get(
    url: str, deadline: float = 30.0, begun: Callable[[], object] = lambda: None
) -> tuple[int, bytes]:
    """The status and the body of a GET; OSError where there is no answer.

    Args:
        begun: Called when the first bytes are there.
    """
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    async with asyncio.timeout(deadline):
        reader, writer = await asyncio.open_connection(name, int(port))
        try:
            ask = f"GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
            writer.write(ask.encode())
            answer = await reader.read(65_536)
            begun()
            answer += await reader.read(-1)
        finally:
            writer.close()
    if not answer:
        raise OSError("no answer")
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def probe(url: str, deadline: float) -> int:
    return (await get(url, deadline))[0]


def real_ports() -> SupervisionPorts:
    """Real processes and a small HTTP client."""
    return SupervisionPorts(
        probe=probe,
        start=replica_process,
        port_conflict=port_conflict,
        oom_kills=lambda: None,
        now=lambda: 1_790_000_000.0,
        chance=lambda: 0.5,
        sum_metrics=sum_metrics,
    )


async def until(condition: Callable[[], object]) -> None:
    """Return once the condition holds."""
    async with asyncio.timeout(_PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """True if the process runs; one that only waits to be reaped does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class PlayedProcess:
    """An engine process that ends when the test or a signal says so."""

    def __init__(self, pid: int, drains_in: float) -> None:
        self.pid = pid
        self.exit: ProcessExit | None = None
        self.signals: list[str] = []
        self._drains_in = drains_in
        self._ended = asyncio.Event()

    async def wait(self) -> ProcessExit:
        await self._ended.wait()
        assert self.exit is not None
        return self.exit

    def stop(self, seconds: float) -> None:
        self.signals.append(f"stop {seconds:g}")
        loop = asyncio.get_running_loop()
        loop.call_later(min(seconds, self._drains_in), self.end, 0)

    def kill(self) -> None:
        self.signals.append("kill")
        self.end(-9)

    def end(self, status: int) -> None:
        if self.exit is None:
            self.exit = ProcessExit(status)
            self._ended.set()


class PlayedEngine:
    """A machine on which an engine starts, answers and ends as the test says, in virtual time.

    Attributes:
        starts: When each process was started, on the loop's clock.
        processes: The processes.
        loads_in: Seconds until its health check is good; None for never.
        lives_for: Seconds until each process ends by itself; None for ever.
        status: Its exit status then.
        hangs: True if health checks are not answered.
        busy_until: When its last call ends, on the loop's clock; None if its metrics hang.
        environment: That of the last start.
        known_flags: Flags that it takes; None for all. At another one it ends as argparse does.
        argv: The command line of the last start.
    """

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.processes: list[PlayedProcess] = []
        self.environment: Mapping[str, str] = {}
        self.loads_in: float | None = 1.0
        self.lives_for: float | None = None
        self.status = 1
        self.hangs = False
        self.busy_until: float | None = 0.0
        self.drains_in = 0.0
        self.conflict = ""
        self.missing = ""
        self.start_error = errno.ENOENT
        self.oom_kills = 0
        self.says = b""
        self.known_flags: frozenset[str] | None = None
        self.argv: tuple[str, ...] = ()

    @property
    def ports(self) -> SupervisionPorts:
        return SupervisionPorts(
            probe=self._probe,
            start=self._start,
            port_conflict=lambda _: self.conflict,
            oom_kills=lambda: self.oom_kills,
            now=lambda: 1_790_000_000.0 + asyncio.get_running_loop().time(),
            chance=lambda: 1.0,
            sum_metrics=self._sum_metrics,
        )

    @asynccontextmanager
    async def _start(
        self, argv: tuple[str, ...], environment: Mapping[str, str], log: EngineLog
    ) -> AsyncIterator[PlayedProcess]:
        if self.missing:
            raise OSError(self.start_error, self.missing)
        loop = asyncio.get_running_loop()
        self.environment, self.argv = environment, argv
        process = PlayedProcess(100 + len(self.processes), self.drains_in)
        self.starts.append(loop.time())
        self.processes.append(process)
        log.feed(self.says)
        if unknown := self._unknown_flags(argv):
            log.feed(f"usage: engine [-h]\nengine: error: {unknown}\n".encode())
            loop.call_later(0.5, process.end, 2)
        if self.lives_for is not None:
            loop.call_later(self.lives_for, process.end, self.status)
        try:
            yield process
        finally:
            with suppress(asyncio.InvalidStateError):
                process.end(-9)

    def _unknown_flags(self, argv: tuple[str, ...]) -> str:
        if self.known_flags is None:
            return ""
        flags = [word for word in argv if word.startswith("--")]
        unknown = [word for word in flags if word not in self.known_flags]
        return f"unrecognized arguments: {' '.join(unknown)}" if unknown else ""

    async def _probe(self, url: str, deadline: float) -> int:
        if self.hangs:
            await asyncio.sleep(1e6)
        up = asyncio.get_running_loop().time() - self.starts[-1]
        if self.loads_in is None or up < self.loads_in:
            raise ConnectionRefusedError
        return 200

    async def _sum_metrics(self, url: str, names: Collection[str], deadline: float) -> float:
        if self.busy_until is None:
            raise TimeoutError
        return float(asyncio.get_running_loop().time() < self.busy_until)
