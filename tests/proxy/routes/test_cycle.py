"""On the wire ours says what uvicorn says, byte for byte; only failures it tells better."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from proxy.routes.cycle import Calls

pytestmark = pytest.mark.anyio

App = Callable[[Scope, Receive, Send], Awaitable[None]]
Reading = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ONE = b"GET /plain HTTP/1.1\r\nhost: us\r\n\r\n"
LAST = b"GET /plain HTTP/1.1\r\nhost: us\r\nConnection: close\r\n\r\n"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop that the gateway runs on."""
    return "asyncio", {"use_uvloop": True}


@dataclass
class Place:
    """A server on this machine."""

    port: int
    state: ServerState

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Reading]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def said(self, *pieces: bytes) -> bytes:
        """All the server says to these pieces, the last of which makes it hang up."""
        async with self.connected() as (reader, writer):
            for piece in pieces:
                writer.write(piece)
                await turns()
            return await asyncio.wait_for(reader.read(), 20)


@asynccontextmanager
async def listening(
    app: App, protocol: type[HttpToolsProtocol] = Calls, keep_alive: int = 30
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
    "/too-long": [start(200, length(3)), part(b"ab", more=True), part(b"cd")],
    "/too-short": [start(200, length(3)), part(b"ab", more=True), part(b"")],
    "/half": [start(200, length(3)), part(b"ab", more=True)],
    "/twice": [start(200, length(1)), part(b"a"), part(b"b")],
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


async def speaking(scope: Scope, receive: Receive, send: Send) -> None:
    """Says what stands at the path, and at others what it heard."""
    if (says := (SAYS | MAY_NOT).get(scope["path"])) is not None:
        for message in says:
            await send(message)
        return
    heard = await body_of(receive)
    told = repr([scope[key] for key in sorted(scope) if key not in {"client", "server"}])
    answer = told.encode() + b"\n" + heard
    await send(start(200, length(len(answer))))
    await send(part(answer))


def asked(path: str, *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "host: us", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


CLOSE = "connection: close"
TALKS: dict[str, Sequence[bytes]] = {
    **{f"what the app says at {path}": [asked(path, CLOSE)] for path in SAYS},
    **{f"HEAD of {path}": [asked(path, CLOSE, method="HEAD")] for path in ("/plain", "/chunks")},
    "the whole scope": [asked("/a%20b/%C3%A9?q=%20&r", "X-Upper: \xe9 y", CLOSE)],
    "another form of address": [asked("http://us/heard?q", CLOSE)],
    "kept alive": [ONE, ONE, LAST],
    "one after the other in one write": [ONE + asked("/chunks") + asked("/heard") + LAST],
    "a body": [asked("/b", "content-length: 5", CLOSE, method="POST"), b"he", b"llo"],
    "a body with its head": [asked("/b", "content-length: 5", CLOSE, method="POST") + b"hello"],
    "a body that nobody reads": [
        asked("/plain", "content-length: 5", method="POST") + b"he", b"llo" + LAST,
    ],
    "a body in chunks": [
        asked("/b", "transfer-encoding: chunked", CLOSE, method="POST"),
        b"2\r\nhe\r\n3;x=y\r\nllo\r\n", b"0\r\n\r\n",
    ],
    "bodies in a pipeline": [
        asked("/b", "content-length: 2", method="POST") + b"he"
        + asked("/c", "content-length: 3", method="POST") + b"llo" + LAST,
    ],
    "HTTP/1.0": [asked("/plain", version="1.0")],
    "HTTP/1.0 in pieces": [asked("/chunks", version="1.0")],
    "HTTP/1.0 that would stay": [asked("/plain", "connection: keep-alive", version="1.0")],
    "a wait for 100": [
        asked("/b", "expect: 100-Continue", "content-length: 2", CLOSE, method="POST"), b"he",
    ],
    "a wait for 100 that ends otherwise": [
        asked("/plain", "expect: 100-continue", "content-length: 2", CLOSE, method="POST"),
    ],
    "an upgrade": [asked("/plain", "connection: upgrade, close", "upgrade: websocket")],
    "what is no HTTP": [b"HELO us\r\n\r\n"],
    "no address": [asked("us:443", method="CONNECT")],
    "a length that is none": [asked("/b", "content-length: five", method="POST")],
    "two lengths": [asked("/b", "content-length: 5", "content-length: 6", method="POST")],
    "a length and chunks": [
        asked("/b", "content-length: 5", "transfer-encoding: chunked", method="POST"),
    ],
    "what is no chunk": [asked("/b", "transfer-encoding: chunked", method="POST") + b"five\r\n"],
}  # fmt: skip


@pytest.mark.parametrize("talk", TALKS)
async def test_ours_says_what_uvicorn_says(talk: str) -> None:
    said = []
    for protocol in (HttpToolsProtocol, Calls):
        async with listening(speaking, protocol) as place:
            said.append(await place.said(*TALKS[talk]))

    assert said[0]
    assert said[1] == said[0]


@pytest.mark.parametrize("path", MAY_NOT)
async def test_what_the_app_may_not_say_becomes_a_500(path: str) -> None:
    async with listening(speaking) as place:
        said = await place.said(asked(path))

    assert said.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"x-other" not in said
    assert said.endswith(b"Internal Server Error")


async def test_an_app_that_fails_after_its_head_is_answered_for() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200, CHUNKED))
        raise ValueError("ours")

    async with listening(app) as place:
        said = await place.said(ONE)

    assert said.startswith(b"HTTP/1.1 500 ")
    assert b"\r\ncontent-length: 21\r\n" in said
    assert b"chunked" not in said


async def test_an_app_cannot_begin_twice() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200, length(2)))
        await send(start(201, length(2)))

    async with listening(app) as place:
        assert (await place.said(ONE)).startswith(b"HTTP/1.1 500 ")


async def test_trailers_are_for_nobody() -> None:
    chunks = b"2\r\nhe\r\n0\r\nx-late: yes\r\n\r\n"
    async with listening(speaking) as place:
        said = await place.said(
            asked("/b", "transfer-encoding: chunked", CLOSE, method="POST") + chunks
        )

    assert said.endswith(b"\nhe")
    assert b"x-late" not in said


@pytest.mark.parametrize(
    "opening",
    [b"GET /", b"GET / HTTP/1.1\r\nx: ", b"GET / HTTP/1.1\r\n"],
    ids=["address", "value", "heads"],
)
async def test_a_head_without_end_is_refused(opening: bytes) -> None:
    filling = b"x: y\r\n" if opening.endswith(b"\n") else b"xxxxxx"
    async with listening(speaking) as place, place.connected() as (reader, writer):
        writer.write(ONE)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.write(opening + filling * 12_000)
        said = await asyncio.wait_for(reader.read(), 20)

    assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_a_first_head_without_end_is_refused() -> None:
    async with listening(speaking) as place:
        assert (await place.said(b"GET /" + b"x" * 70_000)).startswith(b"HTTP/1.1 400 ")


async def test_trailers_without_end_end_the_connection() -> None:
    opening = asked("/b", "transfer-encoding: chunked", method="POST") + b"2\r\nhe\r\n0\r\nx: "
    async with listening(speaking) as place:
        assert await place.said(opening, b"x" * 70_000) == b""


async def test_a_large_head_with_an_end_is_read() -> None:
    async with listening(speaking) as place:
        said = await place.said(asked("/heard", "x-large: " + "x" * 50_000, CLOSE))

    assert said.count(b"x" * 50_000) == 1


@dataclass
class Seen:
    """An app that takes a body in pieces, and notes what it sees."""

    messages: list[Message] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def app(self, _scope: Scope, receive: Receive, _send: Send) -> None:
        while True:
            self.messages.append(await receive())
            self.news.set()
            if self.messages[-1]["type"] == "http.disconnect":
                return
            await self.go.wait()

    async def seen(self) -> None:
        await asyncio.wait_for(self.news.wait(), 20)
        self.news.clear()


async def test_a_caller_that_hangs_up_midway_is_noticed() -> None:
    app = Seen()
    app.go.set()
    async with listening(app.app) as place:
        async with place.connected() as (_, writer):
            writer.write(asked("/b", "content-length: 5", method="POST") + b"he")
            await app.seen()
        await app.seen()

    assert [m["type"] for m in app.messages] == ["http.request", "http.disconnect"]
    assert app.messages[0]["body"] == b"he"
    assert app.messages[0]["more_body"] is True


async def test_pieces_that_came_meanwhile_are_received_as_one() -> None:
    app = Seen()
    async with listening(app.app) as place, place.connected() as (_, writer):
        writer.write(asked("/b", "content-length: 6", method="POST") + b"he")
        await app.seen()
        writer.write(b"l")
        await turns()
        writer.write(b"lo!")
        await turns()
        app.go.set()
        await app.seen()
        while app.messages[-1]["more_body"]:
            await app.seen()

    assert b"".join(message["body"] for message in app.messages[:-1]) + app.messages[-1].get(
        "body", b""
    ) == b"hello!"  # fmt: skip


async def test_what_is_sent_to_a_caller_that_left_goes_nowhere() -> None:
    left = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await receive()
        await send(start(200, length(2)))
        await send(part(b"ok"))
        left.set()

    async with listening(app) as place:
        async with place.connected() as (_, writer):
            writer.write(ONE)
            await turns()
        await asyncio.wait_for(left.wait(), 20)


async def test_after_its_answer_an_app_hears_the_caller_no_more() -> None:
    heard: list[Any] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(start(200, length(2)))
        await send(part(b"ok"))
        heard.append(await receive())

    async with listening(app) as place:
        assert (await place.said(LAST)).endswith(b"ok")
        await turns()

    assert heard == [{"type": "http.disconnect"}]


async def test_a_large_body_waits_until_it_is_read() -> None:
    app = Seen()
    size = 40_000_000
    async with listening(app.app) as place, place.connected() as (_, writer):
        writer.write(asked("/b", f"content-length: {size}", method="POST") + b"x" * size)
        await app.seen()
        for _ in range(2000):
            await asyncio.sleep(0)
        (connection,) = place.state.connections
        held = connection.cycle._size  # type: ignore[union-attr]
        app.go.set()
        while sum(len(message["body"]) for message in app.messages) < size:
            await app.seen()

    assert 65_536 < held < 2_000_000


async def test_a_slow_caller_holds_the_app_back() -> None:
    sent = 0
    piece = b"x" * 100_000

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        nonlocal sent
        await send(start(200, length(400 * len(piece))))
        for _ in range(399):
            await send(part(piece, more=True))
            sent += 1
        await send(part(piece))

    async with listening(app) as place, place.connected() as (reader, writer):
        writer.write(LAST)
        for _ in range(2000):
            await asyncio.sleep(0)
        before = sent
        said = await asyncio.wait_for(reader.read(), 30)

    assert 0 < before < 399
    assert said.endswith(b"\r\n\r\n" + 400 * piece)


async def test_head_and_body_leave_in_one_write() -> None:
    class Wire(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            self.written: list[bytes] = []

        def write(self, data: bytes | bytearray | memoryview) -> None:
            self.written.append(bytes(data))

        def writelines(self, list_of_data: Any) -> None:
            self.written.append(b"".join(list_of_data))

        def is_closing(self) -> bool:
            return False

        def close(self) -> None:
            self.written.append(b"(closed)")

    config = Config(speaking, ws="none", log_config=None)
    config.load()
    wire, state = Wire(), ServerState()
    calls = Calls(config, state, {})
    calls.connection_made(wire)
    calls.data_received(asked("/pieces"))
    await asyncio.wait_for(next(iter(state.tasks)), 20)
    calls.connection_lost(None)

    head = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"
    assert wire.written == [head + b"ab", b"cd", b"(closed)"]


async def test_a_connection_that_is_idle_for_too_long_is_closed() -> None:
    async with listening(speaking, keep_alive=0) as place, place.connected() as (reader, writer):
        writer.write(ONE)
        assert (await asyncio.wait_for(reader.read(), 20)).endswith(b"ok")


async def test_a_server_that_stops_lets_a_call_end_and_takes_no_other() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        begun.set()
        await go.wait()
        await send(start(200, length(2)))
        await send(part(b"ok"))

    async with listening(app) as place, place.connected() as (reader, writer):
        writer.write(ONE)
        await begun.wait()
        for connection in place.state.connections:
            connection.shutdown()
        go.set()
        said = await asyncio.wait_for(reader.read(), 20)

    assert b"\r\nconnection: close\r\n" in said
    assert said.endswith(b"ok")


async def test_a_server_that_stops_hangs_up_on_who_asks_nothing() -> None:
    async with listening(speaking) as place, place.connected() as (reader, writer):
        writer.write(ONE)
        await reader.readuntil(b"ok")
        for connection in list(place.state.connections):
            connection.shutdown()
        assert await asyncio.wait_for(reader.read(), 20) == b""


async def test_a_call_that_is_cancelled_before_its_head_left_is_told() -> None:
    begun = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(start(200, length(2)))
        begun.set()
        await receive()

    async with listening(app) as place, place.connected() as (reader, writer):
        writer.write(ONE)
        await begun.wait()
        for task in place.state.tasks:
            task.cancel()
        assert (await asyncio.wait_for(reader.read(), 20)).startswith(b"HTTP/1.1 500 ")
