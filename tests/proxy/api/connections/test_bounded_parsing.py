"""Callers that send without waiting for answers: few requests wait, and the rest is not read."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from proxy.api.connections.connection_limit import ConnectionLimit
from proxy.api.connections.guarded_connection import ConnectionGuard
from tests.proxy.api.server_fixtures import (
    CLOSE,
    LAST,
    ONE,
    Place,
    RecordingTransport,
    body_of,
    connection_without_peer,
    echo_app,
    head_for,
    length,
    listening,
    part,
    start,
    turns,
)

pytestmark = pytest.mark.anyio
#: What uvloop reads at once.
_READ_BYTES = 256_000
_MANY = (ONE * (_READ_BYTES // len(ONE) + 1))[:_READ_BYTES]
_CHUNKED = head_for("/b", "transfer-encoding: chunked", CLOSE, method="POST")


def is_read(wire: RecordingTransport) -> bool:
    """True unless the connection was paused last."""
    flow = [piece for piece in wire.written if piece in {b"(paused)", b"(resumed)"}]
    return not flow or flow[-1] == b"(resumed)"


def answers(wire: RecordingTransport) -> int:
    return b"".join(wire.written).count(b"HTTP/1.1 200 OK\r\n")


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_true():
            await turns()


def headers(count: int) -> bytes:
    return b"GET /plain HTTP/1.1\r\n" + b"a:b\r\n" * count + b"\r\n"


async def test_at_most_sixteen_requests_wait_and_the_rest_is_not_read() -> None:
    calls, wire = connection_without_peer()
    waiting = [len(calls.pipeline)]
    calls.data_received(_MANY)
    for _ in range(1000):
        waiting.append(len(calls.pipeline))
        assert not is_read(wire)
        await asyncio.sleep(0)

    assert max(waiting) in {15, 16}
    await until(lambda: is_read(wire))
    assert answers(wire) >= _READ_BYTES // len(ONE) - 16


async def test_an_app_that_listens_for_its_caller_does_not_have_a_full_pipeline_read() -> None:
    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    calls, wire = connection_without_peer(app=app)
    calls.data_received(_MANY)
    await turns()

    assert not is_read(wire)
    assert len(calls.pipeline) <= 16
    calls.connection_lost(None)
    await turns()


async def test_a_caller_that_reads_no_answers_is_not_read() -> None:
    calls, wire = connection_without_peer()
    calls.data_received(ONE)
    await turns()
    calls.pause_writing()
    for _ in range(4):
        if is_read(wire):
            calls.data_received(_MANY)
        await turns()

    assert answers(wire) == 1
    assert not is_read(wire)
    calls.resume_writing()
    await turns()
    assert answers(wire) > 1
    calls.connection_lost(None)


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_bodies_in_a_long_pipeline_come_whole_and_are_answered_in_turn(framing: str) -> None:
    bodies = [b"%d\r\n\r\n" % number * (number % 40) for number in range(300)]
    if framing == "length":
        sent = [
            head_for("/b", f"content-length: {len(body)}", method="POST") + body for body in bodies
        ]
    else:
        sent = [
            head_for("/b", "transfer-encoding: chunked", method="POST")
            + (b"%x\r\n%b\r\n" % (len(body), body) if body else b"")
            + b"0\r\n\r\n"
            for body in bodies
        ]

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        body = b"[" + await body_of(receive) + b"]"
        await send(start(200, length(len(body))))
        await send(part(body))

    async with listening(app) as place:
        output = await place.said(b"".join(sent) + LAST)

    answers = output.split(b"HTTP/1.1 200 OK\r\n")[1:]
    contents = [answer.partition(b"\r\n\r\n")[2] for answer in answers]
    assert contents == [b"[" + body + b"]" for body in [*bodies, b""]]


async def test_a_request_that_waits_for_its_body_behind_a_full_pipeline_is_answered() -> None:
    calls, wire = connection_without_peer()
    head = head_for("/b", "content-length: 300000", method="POST")
    calls.data_received(ONE * 12 + head + b"x" * 50_000)
    await turns()
    await until(lambda: is_read(wire) and answers(wire) == 12)
    calls.data_received(b"x" * 250_000 + ONE)
    await until(lambda: answers(wire) == 14)

    assert b"x" * 300_000 in b"".join(wire.written)


async def test_a_body_too_far_ahead_of_its_app_stays_unread_when_its_chunks_are_parsed() -> None:
    go = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await go.wait()
        size = len(await body_of(receive))
        await send(start(200, length(len(str(size)))))
        await send(part(str(size).encode()))

    calls, wire = connection_without_peer(app=app)
    calls.data_received(_CHUNKED + b"4\r\nabcd\r\n" * 25_000)
    for _ in range(300):
        await asyncio.sleep(0)

    assert not is_read(wire)
    go.set()
    await until(lambda: is_read(wire))
    calls.data_received(b"0\r\n\r\n")
    await until(lambda: answers(wire) == 1)
    assert b"100000" in b"".join(wire.written)


async def test_tiny_chunks_are_parsed_in_turns_with_others() -> None:
    calls, wire = connection_without_peer()
    calls.data_received(_CHUNKED + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")
    await turns()

    assert 256 <= len(calls.cycle.body) < 10_000  # type: ignore[union-attr]
    await until(lambda: answers(wire) == 1)
    assert b"x" * 20_000 in b"".join(wire.written)


async def test_connections_together_keep_a_bounded_number_of_bytes_unparsed() -> None:
    guard = ConnectionGuard(limit=ConnectionLimit(total=1000, per_address=1000))
    opened = [connection_without_peer(guard=guard) for _ in range(40)]
    for calls, _ in opened:
        calls.data_received(_MANY)
    await turns()
    refused = [calls for calls, _ in opened if calls._refusal]

    assert 0 < len(refused) < 20
    for calls, _ in opened:
        calls.connection_lost(None)
    calls, _ = connection_without_peer(guard=guard)
    calls.data_received(_MANY)
    assert calls.flow.is_held


async def test_connections_together_have_a_bounded_number_of_large_unfinished_heads() -> None:
    guard = ConnectionGuard(limit=ConnectionLimit(total=1000, per_address=1000))
    head = b"GET /plain HTTP/1.1\r\nx: " + b"y" * 9_000
    opened = [connection_without_peer(guard=guard) for _ in range(200)]
    for calls, _ in opened:
        calls.data_received(head)
    refused = sum(b"HTTP/1.1 503 " in b"".join(wire.written) for _, wire in opened)
    assert 0 < refused < 100

    for calls, wire in opened:
        if not wire.is_closing():
            calls.data_received(b"\r\n\r\n")
    await turns()
    assert sum(answers(wire) for _, wire in opened) == 200 - refused
    calls, wire = connection_without_peer(guard=guard)
    calls.data_received(head)
    calls.connection_lost(None)
    assert guard.unparsed.bytes == 0


async def test_caller_with_a_large_head_in_two_packets_passes_while_one_address_attacks() -> None:
    guard = ConnectionGuard(limit=ConnectionLimit(total=1000, per_address=1000))
    half_head = b"GET /plain HTTP/1.1\r\nx: " + b"y" * 9_000
    before, after = (
        [connection_without_peer(guard=guard, address="192.0.2.1") for _ in range(200)]
        for _ in range(2)
    )
    for calls, _ in before:
        calls.data_received(half_head)
    good, wire = connection_without_peer(guard=guard, address="198.51.100.7")
    good.data_received(half_head)
    for calls, _ in after:
        calls.data_received(half_head)
    good.data_received(b"\r\n\r\n")
    await turns()

    assert answers(wire) == 1
    assert guard.unparsed.bytes <= 8 * 1024 * 1024
    ended = [b"".join(wire.written) for _, wire in [*before, *after] if wire.is_closing()]
    assert len(ended) in {272, 273}
    assert all(output.startswith(b"HTTP/1.1 503 ") for output in ended)
    assert all(b"unfinished or wait for their turn" in output for output in ended)
    for calls, _ in [*before, *after, (good, wire)]:
        calls.connection_lost(None)
    assert guard.unparsed.bytes == 0


async def test_head_that_is_given_up_behind_an_unfinished_answer_keeps_no_bytes() -> None:
    guard = ConnectionGuard()
    go = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await go.wait()
        await send(start(200, length(2)))
        await send(part(b"ok"))

    calls, wire = connection_without_peer(guard=guard, app=app)
    calls.data_received(ONE)
    calls.data_received(b"GET /" + b"u" * 9_000 + b" HTTP/1.1\r\na:b\r\nx: " + b"y" * 9_000)
    opened = [connection_without_peer(guard=guard) for _ in range(128)]
    for other, _ in opened:
        other.data_received(b"GET /" + b"u" * 9_000)
    await turns()
    assert (calls.url, calls.headers) == (b"", [])
    assert not wire.written

    go.set()
    await until(wire.is_closing)
    output = b"".join(wire.written)
    assert output.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"HTTP/1.1 503 " in output


async def test_a_request_of_two_hundred_headers_is_answered() -> None:
    async with listening(echo_app) as place:
        assert (await place.said(headers(200) + LAST)).endswith(b"ok")


@pytest.mark.parametrize("count", [201, 700, 11_000])
async def test_a_request_of_more_headers_gets_431_after_those_before_it(count: int) -> None:
    async with listening(echo_app) as place:
        output = await place.said(ONE * 20 + headers(count) + ONE)

    assert output.count(b"HTTP/1.1 200 OK\r\n") == 20
    last = output[output.rindex(b"HTTP/1.1 ") :]
    assert last.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert b"connection: close\r\n" in last
    assert b'"code":"too_many_headers"' in last


@pytest.mark.parametrize("opening", ["", "connection: upgrade\r\nupgrade: h2c\r\n"])
async def test_head_with_a_body_length_is_not_read_beyond_its_last_allowed_header(
    opening: str,
) -> None:
    calls, wire = connection_without_peer()
    head = f"POST /b HTTP/1.1\r\n{opening}content-length: 99999999\r\n".encode()
    long_header = b"x: " + b"y" * 4_050 + b"\r\n"
    calls.data_received((head + long_header + b"a:b\r\n" * 60_000)[:_READ_BYTES])

    assert b"".join(wire.written).startswith(b"HTTP/1.1 431 ")
    assert len(calls.headers) <= 200


async def test_many_trailers_are_refused() -> None:
    async with listening(echo_app) as place:
        output = await place.said(_CHUNKED + b"0\r\n" + b"a:b\r\n" * 5000 + b"\r\n")

    assert output.startswith(b"HTTP/1.1 431 ")


async def leave(place: Place, sent: bytes) -> None:
    """Send this, hear the beginning of what is said to it, and leave."""
    async with place.connect() as (reader, writer):
        writer.write(sent)
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(100), 0.1)
        writer.transport.abort()
    await until(lambda: not place.state.connections and not place.state.tasks)


async def deaf_app(_scope: Scope, receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    await send(start(200, length(2)))
    await send(part(b"ok"))


@pytest.mark.parametrize(
    "sent",
    [
        ONE, LAST, ONE[:-2], ONE * 3000, headers(11_000), b"HELO us\r\n\r\n",
        head_for("/b", "content-length: 5", method="POST") + b"he",
        head_for("/plain", "connection: upgrade", "upgrade: h2c"), b"GET /" + b"x" * 70_000,
    ],
    ids=[
        "answered", "closed", "half", "pipeline", "headers", "no HTTP", "half a body", "upgrade",
        "long line",
    ],
)  # fmt: skip
def test_a_connection_that_ended_leaves_no_cycle_of_references(sent: bytes) -> None:
    async def unreachable() -> list[str]:
        async with listening(deaf_app) as place:
            await leave(place, sent)
            gc.collect()
            await leave(place, sent)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            return [type(garbage).__name__ for garbage in gc.garbage]

    gc.disable()
    try:
        assert uvloop.run(unreachable()) == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
