"""A server on this machine, what its app says, and what is asked of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from proxy.api.connections.guarded_connection import ConnectionGuard
from proxy.api.connections.server_protocol import ServerProtocol

App = Callable[[Scope, Receive, Send], Awaitable[None]]
Reading = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ONE = b"GET /plain HTTP/1.1\r\nhost: us\r\n\r\n"
LAST = b"GET /plain HTTP/1.1\r\nhost: us\r\nConnection: close\r\n\r\n"


@dataclass
class Place:
    """A server on this machine."""

    port: int
    state: ServerState

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Reading]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def said(self, *pieces: bytes) -> bytes:
        """All the server says to these pieces, the last of which makes it hang up."""
        async with self.connect() as (reader, writer):
            for piece in pieces:
                writer.write(piece)
                await turns()
            return await asyncio.wait_for(reader.read(), 20)


@asynccontextmanager
async def listening(
    app: App, protocol: type[HttpToolsProtocol] = ServerProtocol, keep_alive: int = 30
) -> AsyncIterator[Place]:
    config = Config(
        app, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False,
        timeout_keep_alive=keep_alive, interface="asgi3", proxy_headers=False,
    )  # fmt: skip
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: protocol(config, state, {"kept": "by the app"}), "127.0.0.1", 0
    )
    try:
        yield Place(server.sockets[0].getsockname()[1], state)
    finally:
        server.close()
        for task in list(state.tasks):
            task.cancel()
        for connection in list(state.connections):
            connection.transport.abort()
        await turns()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def body_of(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body, more = body + message["body"], message["more_body"]
    return body


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size


CHUNKED = (b"transfer-encoding", b"Chunked")
#: What the app says at each path.
SAYS: dict[str, Sequence[Message]] = {
    "/plain": [start(200, length(2)), part(b"ok")],
    "/pieces": [start(200, length(4)), part(b"ab", more=True), part(b"", more=True), part(b"cd")],
    "/chunks": [start(), part(b"ab", more=True), part(b"", more=True), part(b"cd")],
    "/open": [start(), part(b"ab", more=True), part(b"")],
    "/said-chunked": [start(200, CHUNKED, length(3)), part(b"abc")],
    "/gone": [start(204), part(b"")],
    "/same": [start(304, (b"etag", b'"1"')), part(b"")],
    "/odd": [start(299, length(0)), part(b"")],
    "/empty": [{"type": "http.response.start", "status": 200}, {"type": "http.response.body"}],
    "/closes": [start(200, (b"Connection", b"x, Close"), length(2)), part(b"ok")],
    "/keeps": [start(200, (b"connection", b"keep-alive"), length(2)), part(b"ok")],
    "/words": [start(200, (b"X-Words", b"t\tab, \xe9\xa0 caf\xc3\xa9"), length(2)), part(b"ok")],
    "/percent": [start(200, (b"X-100%b", b"%s"), (b"x-100%b", b"%%"), length(2)), part(b"ok")],
    "/too-long": [start(200, length(3)), part(b"ab", more=True), part(b"cd")],
    "/too-short": [start(200, length(3)), part(b"ab", more=True), part(b"")],
    "/half": [start(200, length(3)), part(b"ab", more=True)],
    "/twice": [start(200, length(1)), part(b"a"), part(b"b")],
    "/half-chunks": [start(), part(b"ab", more=True)],
    "/chunks-twice": [start(), part(b"a"), part(b"b")],
    "/begins-twice": [start(), start()],
    "/begins-midway": [start(), part(b"a", more=True), start()],
    "/backwards": [part(b"a")],
    "/nothing": [],
}
#: What is no answer; uvicorn hangs up without a word.
MAY_NOT: dict[str, Sequence[Message]] = {
    "/line": [start(200, (b"x-words", b"a\r\nx-other: b"), length(2)), part(b"ok")],
    "/line-feed": [start(200, (b"x-words", b"a\nb"), length(2)), part(b"ok")],
    "/nul": [start(200, (b"x-words", b"a\0b"), length(2)), part(b"ok")],
    "/name": [start(200, (b"x words", b"a"), length(2)), part(b"ok")],
    "/status": [start(999, length(2)), part(b"ok")],
}


async def echo_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says what stands at the path, and at others what it heard."""
    if (says := (SAYS | MAY_NOT).get(scope["path"])) is not None:
        for message in says:
            await send(message)
        return
    heard = await body_of(receive)
    text = repr([scope[key] for key in sorted(scope) if key not in {"client", "server"}])
    answer = text.encode() + b"\n" + heard
    await send(start(200, length(len(answer))))
    await send(part(answer))


def head_for(path: str, *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "host: us", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


CLOSE = "connection: close"


class RecordingTransport(asyncio.Transport):
    """Remembers what is written to it; nothing is ever sent."""

    def __init__(self, address: str = "") -> None:
        super().__init__({"peername": (address, 4711)} if address else {})
        self.written: list[bytes] = []
        self.unsent = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return b"(closed)" in self.written

    def close(self) -> None:
        self.written.append(b"(closed)")

    def abort(self) -> None:
        self.written.append(b"(aborted)")

    def pause_reading(self) -> None:
        self.written.append(b"(paused)")

    def resume_reading(self) -> None:
        self.written.append(b"(resumed)")


def connection_without_peer(
    keep_alive: int = 5,
    *,
    app: App = echo_app,
    guard: ConnectionGuard | None = None,
    address: str = "",
) -> tuple[ServerProtocol, RecordingTransport]:
    """A connection with nobody at its other end."""
    config = Config(app, ws="none", log_config=None, timeout_keep_alive=keep_alive)
    config.load()
    wire = RecordingTransport(address)
    calls = ServerProtocol(config, ServerState(), {}, guard=guard)
    calls.connection_made(wire)
    return calls, wire
