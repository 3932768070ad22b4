"""Processes of a gateway on a loop in virtual time, which waits for all that they do in threads.

A gateway learns layouts in a thread, and another looks for changed settings every two seconds. Were
they not waited for, the call at which a layout begins would depend on the machine's load.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from proxy import app
from proxy.api.endpoint import Endpoint
from proxy.catalog.catalog import Catalog
from proxy.services.planning.planning import PromptPlanning
from proxy.settings import Settings
from proxy.store.sql.change_poller import POLL_INTERVAL_S
from proxy.store.sql.settings.layouts import undecided_layouts
from proxy.store.store import Store, open_store
from proxy.tools.simulator.server import serving
from tests.fakes.http_caller import HttpAnswer, HttpCaller
from tests.fakes.virtual_clock import VirtualTimeLoop

_FLUSH_S = 30.0
_SECRET = b"do no harm".ljust(32)


@dataclass
class GatewayProcesses:
    """Processes of one gateway, which share its store and nothing else; calls take turns.

    Attributes:
        is_restarted: True if all stop and start anew in the middle of each batch.
        approves: True if all layouts that are proposed by then are approved in the middle.
        pause_s: Seconds after a batch: longer than any cache or first byte is waited for.
    """

    settings: Settings
    clock: Callable[[], float]
    count: int = 1
    is_restarted: bool = False
    approves: bool = False
    pause_s: float = 20.0
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _running: list[tuple[app.Gateway, HttpCaller]] = field(default_factory=list)
    _calls: int = 0

    @property
    def store(self) -> Store:
        """The first one's store."""
        return self._running[0][0].store

    async def start(self) -> Catalog:
        """Start all; their catalog."""
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        for _ in range(self.count):
            opened = open_store(self.settings)
            opened.secret = _SECRET
            ticks = asyncio.get_running_loop().time
            running = await self._stack.enter_async_context(
                app.gateway(self.settings, opened, clock=self.clock, ticks=ticks)
            )
            url = await self._stack.enter_async_context(serving(running.app))
            caller = HttpCaller(url, "none")
            self._stack.push_async_callback(caller.close)
            self._stack.callback(group.create_task(_follow_settings(opened)).cancel)
            _wait_for_lessons(running)
            self._running.append((running, caller))
        return self._running[0][0].catalog

    async def stop(self) -> None:
        """Stop all."""
        self._running.clear()
        await self._stack.aclose()

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """The next one's answer."""
        self._calls += 1
        _, caller = self._running[self._calls % len(self._running)]
        return await caller.post(path, body, dict(headers))

    def flush(self) -> None:
        """Have all receipts in the ledger."""
        if not all(running.store.drain.flush(_FLUSH_S) for running, _ in self._running):
            raise TimeoutError("receipts are not in the ledger yet")

    async def pass_middle(self) -> None:
        """Do what is to be done in the middle of a batch."""
        if self.approves:
            for layout in undecided_layouts(self.store.layouts):
                self.store.layouts.approve(layout.place, layout.version, "bench", self.clock())
        if self.is_restarted:
            await self.stop()
            await self.start()


async def _follow_settings(store: Store) -> None:
    """Look for changed settings in the loop's time; a gateway's thread does in real time."""
    while True:
        await asyncio.sleep(POLL_INTERVAL_S)
        await store.ask(store.board.refresh)


def _wait_for_lessons(running: app.Gateway) -> None:
    """Let no time pass while the gateway learns from calls."""
    assert isinstance(running.app, Endpoint)
    planning, loop = running.app._deps.planning, asyncio.get_running_loop()
    assert isinstance(planning, PromptPlanning)
    assert isinstance(loop, VirtualTimeLoop)
    learner = planning._learner

    def is_busy() -> bool:
        with learner._lock:
            return learner._is_at_work

    loop.wait_for_worker(is_busy)
