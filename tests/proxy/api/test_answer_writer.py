"""Tests of which writes an answer leaves in; ``test_server_protocol`` has what it says."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send

from tests.fakes.clock import run_in_instant_time
from tests.proxy.api.server_fixtures import (
    CLOSE,
    ONE,
    connection_without_peer,
    head_for,
    length,
    listening,
    part,
    start,
    turns,
)


def test_a_whole_answer_is_one_write():
    async def work() -> None:
        calls, wire = connection_without_peer()
        calls.data_received(ONE)
        await turns()
        assert wire.written == [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]

    run_in_instant_time(work())


def test_a_head_leaves_with_the_first_piece_behind_it_in_one_write():
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200, length(4)))
        await send(part(b"ab", more=True))
        await send(part(b"cd"))

    async def work() -> None:
        calls, wire = connection_without_peer(app=app)
        calls.data_received(ONE)
        await turns()
        assert [piece[-4:] for piece in wire.written] == [b"\r\nab", b"cd"]

    run_in_instant_time(work())


def test_the_head_of_a_stream_that_takes_its_time_leaves_at_once():
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200))
        await asyncio.sleep(1)
        await send(part(b"ok"))

    async def work() -> None:
        calls, wire = connection_without_peer(app=app)
        calls.data_received(ONE)
        await asyncio.sleep(0.5)
        assert [piece[:15] for piece in wire.written] == [b"HTTP/1.1 200 OK"]
        await asyncio.sleep(1)
        assert wire.written[1:] == [b"2\r\nok\r\n0\r\n\r\n"]

    run_in_instant_time(work())


def test_each_piece_of_a_stream_is_one_write_with_its_frame():
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200))
        for piece in (b"ab", b"0123456789abcdef", b""):
            await send(part(piece, more=True))
        await send(part(b"cd"))

    async def work() -> None:
        calls, wire = connection_without_peer(app=app)
        calls.data_received(ONE)
        await turns()
        head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        frames = [b"10\r\n0123456789abcdef\r\n", b"", b"2\r\ncd\r\n0\r\n\r\n"]
        assert wire.written == [head + b"2\r\nab\r\n", *frames]

    run_in_instant_time(work())


def test_a_large_piece_is_not_copied_behind_its_head():
    body = b"x" * 65_537

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200, length(len(body))))
        await send(part(body))

    async def work() -> None:
        calls, wire = connection_without_peer(app=app)
        calls.data_received(ONE)
        await turns()
        assert wire.written[0].endswith(b"\r\n\r\n")
        assert wire.written[1] == body

    run_in_instant_time(work())


@pytest.mark.anyio
async def test_an_app_that_fails_between_head_and_body_is_answered_for_in_full() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200, length(2)))
        raise ValueError("ours")

    async with listening(app) as place:
        output = await place.said(head_for("/plain", CLOSE))

    assert output.startswith(b"HTTP/1.1 500 ")
    assert output.endswith(b"\r\n\r\nInternal Server Error")


@pytest.mark.anyio
async def test_a_length_that_is_no_number_ends_the_connection() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(start(200, (b"content-length", b"two")))
        await send(part(b"ok"))

    async with listening(app) as place:
        assert await place.said(ONE) == b""
