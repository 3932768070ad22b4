"""A TCP wire to a server that can keep the answers to itself for a while."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


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
