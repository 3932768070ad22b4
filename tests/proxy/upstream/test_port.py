"""The same exchanges over the fake transport and over real connections."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from proxy.catalog.entries import Upstream
from proxy.errors import UpstreamError
from proxy.providers.port import PreparedRequest
from proxy.providers.stream_endings import stale_connection
from proxy.upstream.http import open_transport
from proxy.upstream.port import Transport, UpstreamExchange, open_resending, request_id
from tests.fakes.server import CLOSE, RESET, WAIT, Step, chunked_body, head, serving
from tests.fakes.upstream import (
    SILENCE,
    FakeTransport,
    Piece,
    ScriptedAnswer,
    broken_connection,
    unreachable,
)

PREPARED = PreparedRequest(method="POST", path="/chat/completions", headers={}, body=b"{}")
HEAD = head(200, "Content-Type: text/plain", "Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"x-request-id": "req_1", "request-id": "req_2"}, "req_1"),
        ({"request-id": "req_2"}, "req_2"),
        ({"x-request-id": "", "server": "x"}, ""),
        ({"x-request-id": "x" * 300}, "x" * 256),
    ],
)
def test_the_providers_request_id_is_read_from_either_header(headers, named):
    assert request_id(headers) == named


class StreamingUpstream:
    """One upstream that answers in pieces, and a transport to it."""

    def __init__(self, transport: Transport, base_url: str) -> None:
        self._transport = transport
        self._upstream = Upstream(name="up", kind="openai", base_url=base_url)

    async def open(self) -> UpstreamExchange:
        return await self._transport.open(self._upstream, PREPARED)


Staged = Callable[..., AbstractAsyncContextManager[StreamingUpstream]]


@asynccontextmanager
async def fake(
    *pieces: bytes, breaks: bool = False, waits: bool = False
) -> AsyncIterator[StreamingUpstream]:
    script: list[Piece] = list(pieces)
    script += [broken_connection()] if breaks else []
    script += [SILENCE] if waits else []
    yield StreamingUpstream(
        FakeTransport([ScriptedAnswer(script, headers={"content-type": "text/plain"})]), "x"
    )


@asynccontextmanager
async def real(
    *pieces: bytes, breaks: bool = False, waits: bool = False
) -> AsyncIterator[StreamingUpstream]:
    is_ended = not breaks and not waits
    steps: Sequence[Step] = [HEAD, chunked_body(*pieces, ends=is_ended)]
    steps = [*steps, WAIT] if waits else [*steps, CLOSE] if breaks else steps
    async with (
        serving(steps) as server,
        open_transport({}, connections=4, connect_timeout=5.0) as opened,
    ):
        yield StreamingUpstream(opened, server.base_url)


@pytest.fixture(params=[fake, real], ids=["fake", "http"])
def staged_port(request: pytest.FixtureRequest) -> Staged:
    staged: Staged = request.param
    return staged


async def test_an_exchange_has_a_status_and_headers(staged_port):
    async with staged_port(b"a") as stage:
        exchange = await stage.open()
        assert exchange.status == 200
        assert exchange.headers["content-type"] == "text/plain"
        assert exchange.headers.get("retry-after") is None
        exchange.close()


def test_an_exchange_is_read_to_its_end_and_ends_for_good(staged_port):
    async def work() -> bytes:
        async with staged_port(b"ab", b"c", b"d") as stage:
            exchange, read = await stage.open(), b""
            while piece := await exchange.read():
                read += piece
            assert await exchange.read() == b""
            exchange.close()
            return read

    assert asyncio.run(work()) == b"abcd"


@pytest.mark.parametrize("pieces", [(), (b"abc",), (b"ab", b"c")])
def test_an_exchange_is_read_whole_up_to_a_limit(staged_port, pieces):
    async def work() -> bytes:
        async with staged_port(*pieces) as stage:
            whole: bytes = await (await stage.open()).read_all(3)
            return whole

    assert asyncio.run(work()) == b"".join(pieces)


async def test_an_exchange_over_the_limit_is_a_failure(staged_port):
    async with staged_port(b"ab", b"cd") as stage:
        exchange = await stage.open()
        with pytest.raises(UpstreamError) as caught:
            await exchange.read_all(3)
        assert caught.value.status == 502
        exchange.close()


async def test_a_connection_that_breaks_is_a_failure(staged_port):
    async with staged_port(b"ab", breaks=True) as stage:
        exchange = await stage.open()
        with pytest.raises(UpstreamError) as caught:
            await exchange.read_all(100)
        assert caught.value.code == "upstream_connection_broken"
        assert caught.value.retryable
        assert caught.value.received == b"ab"
        exchange.close()


async def test_closing_twice_is_closing_once(staged_port):
    async with staged_port(b"ab", waits=True) as stage:
        exchange = await stage.open()
        assert await exchange.read() == b"ab"
        exchange.close()
        exchange.close()


async def test_reading_can_be_cancelled(staged_port):
    async with staged_port(b"ab", waits=True) as stage:
        exchange = await stage.open()
        assert await exchange.read() == b"ab"
        reading = asyncio.ensure_future(exchange.read())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        exchange.close()


@asynccontextmanager
async def fake_without_anybody() -> AsyncIterator[StreamingUpstream]:
    yield StreamingUpstream(FakeTransport([unreachable()]), "x")


@asynccontextmanager
async def real_without_anybody() -> AsyncIterator[StreamingUpstream]:
    async with serving([]) as server:
        url = server.base_url
    async with open_transport({}, connections=4, connect_timeout=5.0) as opened:
        yield StreamingUpstream(opened, url)


@pytest.mark.parametrize("empty", [fake_without_anybody, real_without_anybody])
async def test_an_upstream_that_is_not_there_is_a_failure(empty):
    async with empty() as stage:
        with pytest.raises(UpstreamError) as caught:
            await stage.open()
        assert (caught.value.code, caught.value.retryable) == ("upstream_unreachable", True)


@pytest.mark.parametrize("step", [CLOSE, RESET])
async def test_an_upstream_that_hangs_up_without_an_answer_is_a_failure(step):
    async with (
        serving([step]) as server,
        open_transport({}, connections=4, connect_timeout=5.0) as opened,
    ):
        with pytest.raises(UpstreamError) as caught:
            await StreamingUpstream(opened, server.base_url).open()
        assert caught.value.code == "upstream_connection_broken"


@pytest.mark.parametrize(("failures", "requests"), [(1, 2), (2, 2)])
async def test_a_request_without_a_receipt_is_resent_once_after_a_stale_connection(
    failures, requests
):
    stale = [stale_connection() for _ in range(failures)]
    transport = FakeTransport([*stale, ScriptedAnswer([b"ok"])])
    upstream = Upstream(name="up", kind="openai", base_url="http://up")
    if failures > 1:
        with pytest.raises(UpstreamError):
            await open_resending(transport, upstream, PREPARED)
    else:
        exchange = await open_resending(transport, upstream, PREPARED)
        assert await exchange.read_all(9) == b"ok"

    assert len(transport.sent) == requests


async def test_a_request_is_not_resent_after_another_failure():
    transport = FakeTransport([broken_connection(), ScriptedAnswer([b"ok"])])
    upstream = Upstream(name="up", kind="openai", base_url="http://up")
    with pytest.raises(UpstreamError):
        await open_resending(transport, upstream, PREPARED)

    assert len(transport.sent) == 1
