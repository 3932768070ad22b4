"""The session of the engine demo: supervised engines, and a gateway in front of them.

Everything lives in a folder that is removed at the end, and no process is left.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from proxy.app import Gateway
from proxy.configuration import read_catalog
from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.profiles import EngineProfile
from proxy.engines.state.replica_report import LOST_STATES, ProcessState, ReplicaReport
from proxy.engines.supervision.supervised_replica import SupervisionPorts, SupervisionSettings
from proxy.engines.supervision.supervisor import EngineSupervisor
from proxy.errors import OperatorError
from proxy.settings import engine_environment, read
from proxy.tools.demo.session import HOST, demo_settings, listening, serving_gateway
from proxy.tools.engine_demo.profiles import catalog_text, profiles_text, read_profiles

TEAM: Final = "acme-support"

#: Makes what supervision needs of this machine, in a block.
PortsFactory = Callable[[], AbstractAsyncContextManager[SupervisionPorts]]

#: The engine is small: it is ready in a moment, and looked at often.
_START_INTERVAL_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDemoSession:
    """Engines that take calls, and the gateway in front of them.

    Attributes:
        start_seconds: Seconds until every engine was ready.
    """

    gateway: Gateway
    base_url: str
    key: str
    profiles: Mapping[str, EngineProfile]
    folder: Path
    reports: Callable[[], list[ReplicaReport]]
    start_seconds: float
    served: asyncio.Task[None]

    def direct_url(self, name: str) -> str:
        """The base URL of an engine itself, without the gateway."""
        return LLAMACPP.urls(self.profiles[name]).base_url


@asynccontextmanager
async def engine_demo_session(
    *, now: datetime, port: int, price_per_hour: str, ports: PortsFactory
) -> AsyncIterator[EngineDemoSession]:
    """Running engines and gateway; nothing is left of them afterwards.

    Args:
        port: Port that the gateway listens on, or the next free one; 0 takes any.
        price_per_hour: US dollars for an hour of the machine, as a decimal text.

    Raises:
        OSError: If no port is free.
        OperatorError: If an engine does not start; the message has its last lines.
    """
    with TemporaryDirectory(prefix="thriftgate-engine-demo-") as name, listening(port) as listener:
        folder = Path(name)
        text = profiles_text(_free_ports(3), price_per_hour)
        (folder / "engines.toml").write_text(text, encoding="utf8")
        profiles = read_profiles(text)
        settings = demo_settings(folder, catalog_text(profiles.values()))
        ticks = asyncio.get_running_loop().time
        began = ticks()
        async with (
            ports() as machine,
            _running_engines(profiles.values(), folder, machine) as supervisor,
        ):
            ready = ticks()
            async with serving_gateway(settings, listener) as (gateway, served):
                team = gateway.store.teams.create(TEAM, now=now.timestamp())
                _, key = gateway.store.teams.create_key(team.id, "demo", now=now.timestamp())
                yield EngineDemoSession(
                    gateway=gateway,
                    base_url=f"http://{HOST}:{listener.getsockname()[1]}/v1",
                    key=key,
                    profiles=profiles,
                    folder=folder,
                    reports=lambda: supervisor.reports,
                    start_seconds=ready - began,
                    served=served,
                )


@asynccontextmanager
async def _running_engines(
    profiles: Iterable[EngineProfile], folder: Path, ports: SupervisionPorts
) -> AsyncIterator[EngineSupervisor]:
    """A supervisor once all of its engines are ready; they have ended when the block has."""
    reports = _Reports()
    supervisor = EngineSupervisor(
        [LLAMACPP.launch_command(profile, python=sys.executable) for profile in profiles],
        folder / "engines",
        ports,
        SupervisionSettings(environment=_environment(), start_interval_s=_START_INTERVAL_S),
        reports.take,
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(supervisor.run())
        try:
            await reports.until_ready(supervisor)
            yield supervisor
        finally:
            supervisor.stop()
            await running


class _Reports:
    """Waits for what a supervisor reports."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def take(self, report: ReplicaReport) -> None:
        self._changed.set()

    async def until_ready(self, supervisor: EngineSupervisor) -> None:
        """Return once every replica is ready."""
        while any(report.state is not ProcessState.READY for report in supervisor.reports):
            self._changed.clear()
            for report in supervisor.reports:
                if report.state in {ProcessState.RESTARTING, *LOST_STATES}:
                    raise OperatorError(_start_failure(report))
            await self._changed.wait()


def _environment() -> dict[str, str]:
    """The environment of the engines, without providers' keys."""
    upstreams = read_catalog(read({})).upstreams.values()
    return engine_environment(upstream.key_env for upstream in upstreams if upstream.key_env)


def _start_failure(report: ReplicaReport) -> str:
    output = "".join(f"\n  {line}" for line in report.last_lines)
    return f"The engine on port {report.name} did not start: {report.reason}.{output}"


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in sockets]
