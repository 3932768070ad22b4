"""A TCP wire to a server that can keep the answers to itself for a while."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")


class SlowWire:
    """Passes bytes between 127.0.0.1:``port`` and a server; answers only while ``flows`` is set."""

    def __init__(self) -> None:
        self.port = 0
        self.flows = asyncio.Event()
        self.flows.set()
        self.stopped = asyncio.Event()
        self._ends: list[asyncio.StreamWriter] = []

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while read := await reader.read(65_536):
            if not self.flows.is_set():
                self.stopped.set()
            await self.flows.wait()
            writer.write(read)
        writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while read := await reader.read(65_536):
            writer.write(read)
        writer.close()

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, where: tuple[str, int]
    ) -> None:
        far_reader, far_writer = await asyncio.open_connection(*where)
        self._ends += (writer, far_writer)
        with suppress(ConnectionError):
            await asyncio.gather(self._ask(reader, far_writer), self._answer(far_reader, writer))

    @classmethod
    @asynccontextmanager
    async def to(cls, host: str, port: int) -> AsyncIterator["SlowWire"]:
        """A wire to that server, until the end of the context."""
        wire = cls()
        server = await asyncio.start_server(
            lambda reader, writer: wire._join(reader, writer, (host, port)), "127.0.0.1", 0
        )
        wire.port = server.sockets[0].getsockname()[1]
        async with server:
            try:
                yield wire
            finally:
                for end in wire._ends:
                    end.close()
                for end in wire._ends:
                    with suppress(ConnectionError):
                        await end.wait_closed()


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop in real time, some of which a test skips: long deadlines pass when it says so."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped_s = 0.0

    def time(self) -> float:
        """Real seconds, and those skipped."""
        return super().time() + self._skipped_s

    async def outlast(self, deadline_s: float, work: Coroutine[Any, Any, T], wire: SlowWire) -> T:
        """The result of work whose answer is kept back until its deadline has passed."""
        wire.flows.clear()
        task = self.create_task(work)
        await wire.stopped.wait()
        while not task.done():
            self._skipped_s += deadline_s
            await asyncio.sleep(0)
        wire.flows.set()
        return await task


def run_with_skips(story: Callable[[SkippingLoop], Coroutine[Any, Any, T]]) -> T:
    """The result of a story that is told its loop, which it runs on."""

    async def run_story() -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SkippingLoop)
        return await story(loop)

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(run_story())
