"""The connections to one upstream, on both event loops."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
import uvloop

from proxy.errors import UpstreamError
from proxy.upstream.connection import Connection
from proxy.upstream.origin import ConnectionPool
from proxy.upstream.port import was_never_sent
from tests.fakes.server import CLOSE, RESET, WAIT, Server, Step, chunked_body, head, serving

ASK = b"GET / HTTP/1.1\r\nhost: up\r\n\r\n"
OK: list[Step] = [head(200, "Content-Length: 2"), b"ok"]
HALF: list[Step] = [head(200, "Content-Length: 9"), b"ok", WAIT]
TLS = ssl.create_default_context()

LoopFactory = Callable[[], asyncio.AbstractEventLoop] | None


def origin(url: str, *, connections: int = 4) -> ConnectionPool:
    return ConnectionPool(urlsplit(url), connections=connections, connect_timeout=5.0, tls=TLS)


@asynccontextmanager
async def connection_pool(
    *answers: Sequence[Step], connections: int = 4
) -> AsyncIterator[tuple[Server, ConnectionPool]]:
    async with serving(*answers) as server:
        pool = origin(server.base_url, connections=connections)
        try:
            yield server, pool
        finally:
            pool.close()
            await asyncio.sleep(0)


async def exchange(pool: ConnectionPool, body: bytes = b"") -> Connection:
    request = ASK[:-2] + b"content-length: %d\r\n\r\n" % len(body)
    async with asyncio.timeout(5):
        return await pool.exchange(request, body, is_bodiless=False)


async def call(pool: ConnectionPool, body: bytes = b"") -> bytes:
    """One call, whose connection is given back."""
    connection = await exchange(pool, body)
    try:
        read = b""
        while piece := await connection.read():
            read += piece
        return read
    finally:
        pool.release(connection)


@pytest.fixture(autouse=True, params=[None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> LoopFactory:
    factory: LoopFactory = request.param
    return factory


async def test_calls_share_a_connection_one_after_the_other():
    async with connection_pool(
        OK, [head(200, "Transfer-Encoding: chunked"), chunked_body(b"ok")]
    ) as (
        server,
        pool,
    ):
        for _ in range(3):
            assert await call(pool) == b"ok"
        assert len({request.port for request in server.got}) == 1


@pytest.mark.parametrize(
    "answer",
    [
        [head(200, "Content-Length: 2", "Connection: close"), b"ok"],
        [head(200, "Content-Length: 2") + b"ok" + b"HTTP/1.1 200 OK\r\n"],
        [head(200), b"ok", CLOSE],
    ],
)
async def test_a_connection_that_ends_or_says_too_much_is_not_used_again(answer):
    async with connection_pool(answer, OK) as (server, pool):
        for _ in range(2):
            assert await call(pool) == b"ok"
        assert len({request.port for request in server.got}) == 2


@pytest.mark.parametrize("step", [CLOSE, RESET])
async def test_a_kept_connection_that_is_closed_unanswered_was_stale_and_the_next_one_is_new(step):
    async with connection_pool(OK, [step], OK) as (server, pool):
        assert await call(pool) == b"ok"
        with pytest.raises(UpstreamError) as stale:
            await call(pool, b"body")
        assert stale.value.was_stale
        assert await call(pool, b"body") == b"ok"
        assert [request.body for request in server.got] == [b"", b"body", b"body"]
        assert len({request.port for request in server.got}) == 2


@pytest.mark.parametrize("step", [CLOSE, RESET])
async def test_a_new_connection_that_is_closed_unanswered_was_not_stale(step):
    async with connection_pool([step]) as (_, pool):
        with pytest.raises(UpstreamError) as broken:
            await call(pool)
        assert not broken.value.was_stale


async def test_connections_that_have_been_idle_for_longer_than_a_stale_one_are_closed():
    async with connection_pool(OK, OK, [CLOSE], OK) as (server, pool):
        for connection in [await exchange(pool), await exchange(pool)]:
            assert await connection.read() == b"ok"
            pool.release(connection)
        with pytest.raises(UpstreamError):
            await call(pool)
        assert await call(pool) == b"ok"
        assert len({request.port for request in server.got}) == 3


@pytest.mark.parametrize("events", [b"H", head(100), b"HTTP/1.1 200 OK\r\nX: y\r\n", b"garbage"])
async def test_a_call_is_not_sent_twice_once_a_byte_of_its_answer_came(events):
    async with connection_pool(OK, [events, CLOSE], OK) as (server, pool):
        assert await call(pool) == b"ok"
        with pytest.raises(UpstreamError):
            await call(pool, b"body")
        assert len(server.got) == 2
        assert await call(pool) == b"ok"


async def test_an_idle_connection_is_given_up_when_it_is_old():
    async with connection_pool(OK) as (server, pool):
        assert await call(pool) == b"ok"
        pool._idle[0].idle_since -= 31
        assert await call(pool) == b"ok"
        assert len({request.port for request in server.got}) == 2


async def test_old_connections_are_closed_although_newer_ones_are_used():
    async with connection_pool(OK) as (_, pool):
        both = [await exchange(pool), await exchange(pool)]
        for connection in both:
            assert await connection.read() == b"ok"
            pool.release(connection)
        both[0].idle_since -= 31
        assert await call(pool) == b"ok"
        assert list(pool._idle) == [both[1]]
        assert not both[0].is_reusable


async def test_a_call_over_the_limit_waits_for_room():
    async with connection_pool(HALF, HALF, OK, connections=2) as (server, pool):
        first, _ = await exchange(pool), await exchange(pool)
        third = asyncio.ensure_future(call(pool))
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(server.got) == 2
        pool.release(first)
        assert await third == b"ok"


async def test_neither_failures_nor_cancelled_calls_cost_room():
    async with connection_pool([CLOSE], [WAIT], OK, connections=1) as (server, pool):
        with pytest.raises(UpstreamError):
            await call(pool)
        server.asked.clear()
        silent = asyncio.ensure_future(call(pool))
        queued = [asyncio.ensure_future(call(pool)) for _ in range(3)]
        await server.asked.wait()
        for task in [*queued[:2], silent]:
            task.cancel()
        assert await queued[2] == b"ok"
        assert await call(pool) == b"ok"
        await asyncio.gather(silent, *queued, return_exceptions=True)
        assert pool._limit.try_acquire()


@pytest.mark.parametrize("rounds", range(8))
async def test_a_call_can_be_cancelled_at_any_moment(rounds):
    slow: list[Step] = [head(200, "Content-Length: 9"), b"poi", WAIT]
    async with connection_pool(slow, OK, connections=1) as (server, pool):
        task = asyncio.ensure_future(call(pool))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        answer = await call(pool) if server.got else b"ok"
        assert answer == b"ok"
        assert pool._limit.try_acquire()


async def test_a_large_body_is_sent_and_a_large_answer_read_whole():
    size = 32 * 1024 * 1024

    body = b"x" * size
    large: list[Step] = [head(200, f"Content-Length: {size}"), body]
    async with connection_pool(large) as (server, pool):
        connection = await exchange(pool, body)
        read = 0
        while piece := await connection.read():
            assert len(piece) < 1 << 20
            read += len(piece)
        pool.release(connection)
        assert read == size
        assert len(server.got[0].body) == size


async def test_closing_hangs_up_on_idle_and_busy_connections():
    endless: list[Step] = [head(200), b"half", WAIT]
    async with connection_pool(OK, endless) as (server, pool):
        both = [await exchange(pool), await exchange(pool)]
        assert await both[0].read() == b"ok"
        pool.release(both[0])
        assert await both[1].read() == b"half"
        pool.close()
        with pytest.raises(UpstreamError):
            await both[1].read()
        await server.hung_up.wait()
        assert not both[0].is_reusable


async def test_no_small_packet_waits_for_another():
    async with connection_pool(OK) as (_, pool):
        connection = await exchange(pool)
        plug = connection._transport.get_extra_info("socket")
        assert plug.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        pool.release(connection)


async def test_a_host_is_reached_over_whichever_of_its_addresses_answers():
    async with serving(OK) as server:
        pool = origin(f"http://localhost:{server.port}")  # may be ::1 as well
        assert await call(pool) == b"ok"
        pool.close()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("url", "authority", "host", "port"),
    [
        ("http://up", "up", "up", 80),
        ("https://up/v1", "up", "up", 443),
        ("https://Up:8443/v1", "Up:8443", "up", 8443),
        ("http://[::1]:80/v1", "[::1]:80", "::1", 80),
        ("https://[::1]", "[::1]", "::1", 443),
        ("http://user:word@up:1/v1", "up:1", "up", 1),
        ("http://bücher.example:81", "xn--bcher-kva.example:81", "xn--bcher-kva.example", 81),
    ],
)
def test_an_address_says_where_to_go(url, authority, host, port):
    parsed = origin(url)

    assert (parsed.authority, parsed._host, parsed._port) == (authority, host, port)
    assert (parsed._tls is None) == url.startswith("http:")


@pytest.mark.parametrize(
    "url",
    [
        *["", "up", "//up", "ftp://up", "http://", "http://:80", "http://up:x", "http://up:70000"],
        *["http://a..b", f"http://{'a' * 64}.b"],
    ],
)
def test_an_address_that_is_none_is_an_error(url):
    with pytest.raises(ValueError, match=r"HTTP|[Pp]ort|idna|label"):
        origin(url)


async def test_a_call_cancelled_while_it_waits_for_a_connection_says_that_it_was_not_sent():
    async with connection_pool(HALF, [WAIT], connections=1) as (_, pool):
        first = await exchange(pool)
        waiting = asyncio.ensure_future(pool.exchange(ASK, b"", is_bodiless=False))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await waiting
        assert was_never_sent(cancelled.value)
        pool.release(first)
