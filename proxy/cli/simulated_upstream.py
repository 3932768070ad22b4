"""The simulator in place of every provider, for ``thriftgate serve --simulated``.

It runs in a thread of its own, so that it waits for nothing that the gateway does.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from proxy.catalog.catalog import Catalog
from proxy.settings import Settings
from proxy.tools.demo.catalog import redirected_catalog, simulated_models
from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator

#: Folder within the gateway's: simulated costs stay out of its ledger.
_FOLDER: Final = "simulated"
_START_TIMEOUT_S: Final = 30.0


@contextmanager
def simulated_upstream(
    settings: Settings, shipped: Catalog, clock: Callable[[], float]
) -> Iterator[Settings]:
    """The settings of a gateway whose calls all go to a simulator, which runs meanwhile.

    Its ledger is a file of its own; no key of a provider is read, and no other store is used.

    Args:
        settings: Settings of the gateway.
        shipped: Catalog whose models are simulated.
        clock: The time.

    Raises:
        OSError: If the folder cannot be written, or the simulator cannot listen.
    """
    simulator = Simulator(
        SimulatorSettings(models=simulated_models(shipped)), clock=clock, sleep=asyncio.sleep
    )
    address: Future[str] = Future()
    stopped = Event()
    thread = Thread(target=_run, args=(simulator, address, stopped), name="simulator", daemon=True)
    thread.start()
    try:
        folder = settings.folder / _FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        catalog = folder / "catalog.toml"
        base_url = address.result(_START_TIMEOUT_S)
        catalog.write_text(redirected_catalog(shipped, base_url), "utf8")
        yield settings.model_copy(
            update={"folder": folder, "catalog": catalog, "database_url": "", "redis_url": ""}
        )
    finally:
        stopped.set()
        thread.join(_START_TIMEOUT_S)


def _run(simulator: Simulator, address: Future[str], stopped: Event) -> None:
    """Answer calls until told to stop."""
    try:
        asyncio.run(_answer(simulator, address, stopped))
    except OSError as error:
        address.set_exception(error)


async def _answer(simulator: Simulator, address: Future[str], stopped: Event) -> None:
    async with serving(app(simulator)) as base_url:
        address.set_result(base_url)
        await asyncio.to_thread(stopped.wait)
