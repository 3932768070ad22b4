"""The simulator in place of every provider, for ``thriftgate serve --simulated``.

It runs in a thread of its own, so that work on the gateway's event loop does not delay it.
"""

import asyncio
import fcntl
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

from proxy.catalog.catalog import Catalog
from proxy.cli.storage_checks import SIMULATED_FOLDER, SIMULATOR_LOCK
from proxy.settings import Settings
from proxy.tools.demo.catalog import redirected_catalog, simulated_models
from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator

_START_TIMEOUT_S: Final = 30.0


@contextmanager
def simulated_upstream(
    settings: Settings, shipped: Catalog, clock: Callable[[], float]
) -> Iterator[Settings]:
    """The settings of a gateway that sends all calls to a simulator; runs it meanwhile.

    Its ledger is a file of its own; no key of a provider is read, and no other store is used.

    Raises:
        OSError: If the folder cannot be written, another gateway's simulator uses it, or the
            simulator cannot listen.
    """
    folder = settings.folder / SIMULATED_FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(folder), _simulator(shipped, clock) as base_url:
        catalog = folder / "catalog.toml"
        catalog.write_text(redirected_catalog(shipped, base_url), "utf8")
        yield settings.model_copy(
            update={"folder": folder, "catalog": catalog, "database_url": "", "redis_url": ""}
        )


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Lock the folder for this process: a second gateway would overwrite its catalog."""
    with (folder / SIMULATOR_LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            why = (
                f"another simulated gateway uses {folder}."
                " Stop it, or set THRIFTGATE_FOLDER to another folder."
            )
            raise OSError(why) from None
        yield


@contextmanager
def _simulator(shipped: Catalog, clock: Callable[[], float]) -> Iterator[str]:
    simulator = Simulator(
        SimulatorSettings(models=simulated_models(shipped)), clock=clock, sleep=asyncio.sleep
    )
    address: Future[str] = Future()
    stopped = Event()
    thread = Thread(target=_run, args=(simulator, address, stopped), name="simulator", daemon=True)
    thread.start()
    try:
        yield address.result(_START_TIMEOUT_S)
    finally:
        stopped.set()
        thread.join(_START_TIMEOUT_S)


def _run(simulator: Simulator, address: Future[str], stopped: Event) -> None:
    try:
        asyncio.run(_answer(simulator, address, stopped))
    except OSError as error:
        address.set_exception(error)


async def _answer(simulator: Simulator, address: Future[str], stopped: Event) -> None:
    async with serving(app(simulator)) as base_url:
        address.set_result(base_url)
        await asyncio.to_thread(stopped.wait)
