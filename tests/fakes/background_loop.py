"""Things that run on an event loop in a thread of their own while a test uses them."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

import uvloop

T = TypeVar("T")


@contextmanager
def running_in_thread(make: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Yields what ``make`` returns, running in a thread until the test is done with it."""
    ready: list[T] = []
    failed: list[BaseException] = []
    began, end = threading.Event(), threading.Event()

    async def live() -> None:
        async with make() as running:
            ready.append(running)
            began.set()
            await asyncio.get_running_loop().run_in_executor(None, end.wait)

    def run() -> None:
        try:
            uvloop.run(live())
        except BaseException as error:  # noqa: BLE001 - told to the test, which is another thread
            failed.append(error)
        finally:
            began.set()

    thread = threading.Thread(target=run, name="event-loop", daemon=True)
    thread.start()
    assert began.wait(100)
    try:
        if failed:
            raise failed[0]
        yield ready[0]
    finally:
        end.set()
        thread.join(30)
        if failed:
            raise failed[0]
