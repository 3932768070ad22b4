"""The demo's gateway with its two hundred calls, in a thread, for tests in a real browser."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from proxy.records.feature_mode import PlanningMode
from proxy.store.store import Store
from proxy.tools.demo import plan
from proxy.tools.demo.session import DemoSession, run_session
from proxy.tools.demo.traffic import send

_SPAN = timedelta(hours=1)
_START_TIMEOUT_S = 90.0


@dataclass(frozen=True, kw_only=True)
class DemoGateway:
    """A gateway that serves the demo's ledger.

    Attributes:
        url: Its address.
        store: Its store; asked from another thread than its own.
        folder: Its folder, with its policies file.
    """

    url: str
    store: Store
    folder: Path


@contextmanager
def demo_gateway(calls: int) -> Iterator[DemoGateway]:
    """The gateway, once so many calls are in its ledger."""
    started: Future[tuple[DemoGateway, Callable[[], object]]] = Future()
    running = threading.Thread(
        target=lambda: asyncio.run(_serve(calls, started)), name="demo gateway"
    )
    running.start()
    serving, stop = started.result(_START_TIMEOUT_S)
    try:
        yield serving
    finally:
        stop()
        running.join(_START_TIMEOUT_S)


async def _serve(calls: int, started: "Future[tuple[DemoGateway, Callable[[], object]]]") -> None:
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()
    now = datetime.now(UTC)  # noqa: TID251 - the thread's own clock
    try:
        # Layouts wait for approval, so that pages show them and a test can approve one.
        async with run_session(
            now=now, start=now - _SPAN, port=0, planning=PlanningMode.OBSERVE
        ) as session:
            await _send_calls(session, calls)
            serving = DemoGateway(
                url=session.base_url.removesuffix("/v1"),
                store=session.gateway.store,
                folder=Path(session.folder),
            )
            started.set_result((serving, partial(loop.call_soon_threadsafe, is_over.set)))
            await is_over.wait()
    except BaseException as error:
        if not started.done():
            started.set_exception(error)
        raise


async def _send_calls(session: DemoSession, count: int) -> None:
    planned = plan.calls(start=session.since, count=count)
    await send(
        planned,
        base_url=session.base_url,
        keys=session.keys,
        clock=session.clock,
        tell=lambda *_: None,
    )
    await asyncio.to_thread(session.gateway.store.drain.flush, 20)
