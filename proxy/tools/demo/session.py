"""The session of the demo: the simulator, and a gateway in a folder that is removed with it."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn

from proxy import app
from proxy.api.connections import serving as servers
from proxy.app import Gateway
from proxy.configuration import read_catalog
from proxy.records.feature_mode import PlanningMode
from proxy.settings import Settings, read
from proxy.tools.demo.catalog import redirected_catalog, simulated_models
from proxy.tools.simulator.app import app as lab_app
from proxy.tools.simulator.models import SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator

HOST = "127.0.0.1"
TEAMS = ("acme-support", "acme-engineering", "acme-docs")

#: Real seconds per simulated one: short, and yet the waits can be seen.
_TIME_SCALE = 0.05
_PORTS_TRIED = 100
_LAST_PORT = 65_535
_BACKLOG = 4096
#: They refuse and reroute no call, so the demo's figures are those without them.
_POLICIES = """
[[budgets]]
name = "teams-month"
scope = "team"
limit = "2"
unit = "usd"
window = "month"
hard = false

[[objectives]]
name = "first-token"
metric = "ttft"
p = 95
under = "1s"
enforce = "observe"
ladder = ["gpt-5.6-luna"]
"""


class DemoClock:
    """The demo's time: it runs, and jumps ahead to the moments at which the calls are made.

    So the simulator's caches grow old, and the gateway's layouts take effect, between the turns of
    a conversation as they do in real use, although the calls follow each other at once.
    """

    def __init__(self, start: datetime, ticks: Callable[[], float]) -> None:
        self._ticks = ticks
        self._ahead = start.timestamp() - ticks()

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return self._ahead + self._ticks()

    def reach(self, time: datetime) -> None:
        """Jump to that moment, if it is yet to come."""
        self._ahead += max(0.0, time.timestamp() - self())


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSession:
    """A running gateway in front of the simulator.

    Attributes:
        keys: The secret of a key by its team's name.
        names: The teams' names by id.
        served: Ends once the gateway was told to stop, by a signal for instance.
    """

    gateway: Gateway
    base_url: str
    keys: Mapping[str, str]
    names: Mapping[str, str]
    folder: str
    clock: DemoClock
    since: datetime
    served: asyncio.Task[None]


@asynccontextmanager
async def run_session(
    *, now: datetime, start: datetime, port: int, planning: PlanningMode = PlanningMode.AUTO
) -> AsyncIterator[DemoSession]:
    """The simulator and the gateway, taking calls; nothing is left of them afterwards.

    Args:
        start: First time on the clock of simulator and gateway.
        port: Port that the gateway listens on, or the next free one; 0 takes any.

    Raises:
        OSError: If no port is free.
    """
    shipped = read_catalog(read({}))
    clock = DemoClock(start, asyncio.get_running_loop().time)
    lab_settings = SimulatorSettings(models=simulated_models(shipped), time_scale=_TIME_SCALE)
    lab = Simulator(lab_settings, clock=clock, sleep=asyncio.sleep)
    with TemporaryDirectory(prefix="thriftgate-demo-") as name, listening(port) as listener:
        async with serving(lab_app(lab)) as upstream:
            catalog = redirected_catalog(shipped, upstream)
            settings = demo_settings(Path(name), catalog, _POLICIES, planning)
            async with serving_gateway(settings, listener, clock) as (gateway, served):
                keys, names = _teams(gateway, start.timestamp())
                yield DemoSession(
                    gateway=gateway,
                    base_url=f"http://{HOST}:{listener.getsockname()[1]}/v1",
                    keys=keys,
                    names=names,
                    folder=name,
                    clock=clock,
                    since=start,
                    served=served,
                )


@asynccontextmanager
async def serving_gateway(
    settings: Settings, listener: socket.socket, clock: Callable[[], float] | None = None
) -> AsyncIterator[tuple[Gateway, asyncio.Task[None]]]:
    """A gateway that takes calls, and the task that ends once it was told to stop."""
    async with app.gateway(settings, clock=clock) as gateway, asyncio.TaskGroup() as group:
        server = servers.server(gateway.app, settings)
        served = group.create_task(_serve(server, listener))
        try:
            yield gateway, served
        finally:
            server.should_exit = True
            await served  # lets running calls end, also when the demo was stopped


def demo_settings(
    folder: Path, catalog: str, policies: str = "", planning: PlanningMode = PlanningMode.AUTO
) -> Settings:
    """Settings of their own: what is set for a real gateway is no business of the demo's.

    Args:
        catalog: Text of its catalog file.
        policies: Text of its policies file.
    """
    path, limits = folder / "catalog.toml", folder / "policies.toml"
    path.write_text(catalog, encoding="utf8")
    limits.write_text(policies, encoding="utf8")
    return read(
        {
            "THRIFTGATE_FOLDER": str(folder),
            "THRIFTGATE_CATALOG": str(path),
            "THRIFTGATE_POLICIES": str(limits),
            "THRIFTGATE_PLANNING": planning.value,
            # The same calls sent directly are reckoned for each team; with a control arm besides,
            # a dozen conversations a team would come to something else in every run.
            "THRIFTGATE_CONTROL_SHARE": "0",
        }
    )


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    await server.serve(sockets=[listener])


def _teams(gateway: Gateway, now: float) -> tuple[dict[str, str], dict[str, str]]:
    keys, names = {}, {}
    for name in TEAMS:
        team = gateway.store.teams.create(name, now=now)
        _, keys[name] = gateway.store.teams.create_key(team.id, "demo", now=now)
        names[team.id] = name
    return keys, names


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """A socket that takes connections at once, on the first free port from ``port`` on."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        last = min(port + _PORTS_TRIED, _LAST_PORT)
        for candidate in range(port, last + 1):
            if _try_bind(listener, candidate):
                listener.listen(_BACKLOG)
                yield listener
                return
    raise OSError(errno.EADDRINUSE, f"no port from {port} to {last} is free")


def _try_bind(listener: socket.socket, port: int) -> bool:
    try:
        listener.bind((HOST, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True
