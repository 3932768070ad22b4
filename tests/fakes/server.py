"""A server on this machine that answers with raw bytes."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

#: Ends an answer by closing or by resetting the connection; both break it off.
CLOSE = "close"
RESET = "reset"
#: Says nothing more and keeps the connection open.
WAIT = "wait"

Step = bytes | str
#: Rounds of the loop from a connection's arrival to the task that plays to it.
_ROUNDS = 5


@dataclass
class ReceivedAnswer:
    """One request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes
    port: int


@dataclass
class Server:
    """Plays one list of steps per request, the last one again and again."""

    answers: Sequence[Sequence[Step]]
    port: int = 0
    got: list[ReceivedAnswer] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    _playing: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._playing[writer] = asyncio.current_task()
        try:
            while await self._request(reader, writer):
                for step in self.answers[min(len(self.got), len(self.answers)) - 1]:
                    if isinstance(step, bytes):
                        writer.write(step)
                        await writer.drain()
                    elif step == WAIT:
                        assert await reader.read(1) == b""
                        self.hung_up.set()
                        return
                    elif step == RESET:
                        writer.transport.abort()
                        return
                    else:
                        return
        except ConnectionError:
            self.hung_up.set()
        finally:
            writer.close()

    async def close(self) -> None:
        """Hang up on everybody, those included who are only just coming in."""
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        for writer in self._playing:
            writer.transport.abort()
        await asyncio.gather(*(task for task in self._playing.values() if task is not None))

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        line, *fields = head.strip().split("\r\n")
        headers = {n.lower(): v for n, _, v in (field.partition(": ") for field in fields)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        port = writer.get_extra_info("peername")[1]
        self.got.append(ReceivedAnswer(line, headers, body, port))
        self.asked.set()
        return True


@asynccontextmanager
async def serving(
    *answers: Sequence[Step], tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """A server that is there until left."""
    server = Server(answers)
    listening = await asyncio.start_server(server.play, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await server.close()


def head(status: int = 200, *headers: str) -> bytes:
    """The head of an answer."""
    lines = [f"HTTP/1.1 {status} Whatever", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def chunked_body(*pieces: bytes, ends: bool = True) -> bytes:
    """Pieces in chunks, as a stream sends them."""
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return chunks + (b"0\r\n\r\n" if ends else b"")
