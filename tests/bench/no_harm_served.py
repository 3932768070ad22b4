"""Cells of the table with gateways that are processes of the operating system, in real time.

``thriftgate serve`` runs several times on one database, as it is deployed; calls take turns among
the processes. Simulators and callers run here, on the machine's clock.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from proxy.configuration import read_catalog
from proxy.settings import Settings
from proxy.store.sql.settings.layouts import undecided_layouts
from proxy.store.store import Store
from proxy.tools.simulator.app import app as simulator
from proxy.tools.simulator.server import serving
from tests.bench.no_harm_live import ComparedGateway
from tests.bench.no_harm_routes import call_recorders, catalog, new_upstream
from tests.fakes.http_caller import HttpAnswer, HttpCaller
from tests.fakes.replicas import SiblingProcess
from tests.fakes.serve_process import ServeProcess


class ServedProcesses:
    """Several ``thriftgate serve`` on one database.

    Args:
        first: The one whose database the others share.
        count: Number of processes.
        settings: Environment variables of each.
        is_restarted: True if all stop and start anew in the middle of each batch.
        approves: True if all layouts that are proposed by then are approved in the middle.

    Attributes:
        pause_s: Seconds after a batch: until all receipts are in the ledger.
        store: The database, opened beside them.
    """

    pause_s = 8.0

    def __init__(
        self,
        first: ServeProcess,
        count: int,
        settings: Mapping[str, str],
        *,
        is_restarted: bool = False,
        approves: bool = False,
    ) -> None:
        folders = [first.folder.parent / f"{number}" for number in range(1, count)]
        for folder in folders:
            folder.mkdir()
        self._processes = [first, *(SiblingProcess(first, folder) for folder in folders)]
        self._callers = [HttpCaller(f"{process.url}/v1", "none") for process in self._processes]
        self._settings = settings
        self._is_restarted = is_restarted
        self._approves = approves
        self._calls = 0
        self.store = Store.open(first.database_url, first.folder / "beside")

    async def start(self) -> None:
        """Start all."""
        for process in self._processes:
            await asyncio.to_thread(process.start, **self._settings)

    async def stop(self) -> None:
        """Stop all."""
        for process in self._processes:
            await asyncio.to_thread(process.stop)

    async def close(self) -> None:
        """Stop all, and leave nothing open."""
        await self.stop()
        for caller in self._callers:
            await caller.close()
        self.store.close(10)

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """The next one's answer."""
        self._calls += 1
        caller = self._callers[self._calls % len(self._callers)]
        return await caller.post(path, body, dict(headers))

    def flush(self) -> None:
        """Nothing: the processes write their receipts themselves, within the pause."""

    async def pass_middle(self) -> None:
        """Do what is to be done in the middle of a batch."""
        if self._approves:
            for layout in undecided_layouts(self.store.layouts):
                self.store.layouts.approve(layout.place, layout.version, "bench", time.time())  # noqa: TID251 - real processes
        if self._is_restarted:
            await self.stop()
            await self.start()


@asynccontextmanager
async def beside_served(
    folder: Path,
    settings: Mapping[str, str],
    *,
    processes: int = 1,
    is_restarted: bool = False,
    approves: bool = False,
) -> AsyncIterator[ComparedGateway]:
    """Running processes before their simulator, and the simulator that is asked directly."""
    clock = time.time  # noqa: TID251 - real processes
    behind, direct = (new_upstream(clock) for _ in range(2))
    async with serving(simulator(behind)) as url, serving(simulator(direct)) as direct_url:
        _, file = catalog(folder, url)
        models = read_catalog(Settings(folder=folder, catalog=file))
        served = ServedProcesses(
            ServeProcess(folder, file, ""),
            processes,
            settings,
            is_restarted=is_restarted,
            approves=approves,
        )
        caller = HttpCaller(direct_url, "sk-simulated")
        try:
            await served.start()
            upstreams = direct, behind
            yield ComparedGateway(
                models, caller, served, upstreams, call_recorders(upstreams), clock
            )
        finally:
            await served.close()
            await caller.close()
