"""The ends of answers, pauses of reading, and connections that are used again."""

import asyncio
from typing import Any

import pytest

from proxy.errors import UpstreamError
from tests.fakes.raw_connection import (
    CHUNKED,
    OK,
    REQUEST,
    connect,
    receive_answer,
    start_exchange,
    whole,
)
from tests.fakes.server import chunked_body, head

BOUND = 256 * 1024


async def test_hanging_up_on_an_answer_without_a_length_does_not_make_it_whole():
    connection, socket = connect()
    task = await start_exchange(connection)
    socket.arrive(head(200) + b"half")
    await task
    assert await connection.read() == b"half"
    reading = asyncio.ensure_future(connection.read())
    await asyncio.sleep(0)
    connection.close()
    with pytest.raises(UpstreamError):
        await reading
    with pytest.raises(UpstreamError):
        await connection.read()


async def test_an_error_of_the_socket_does_not_make_an_answer_whole():
    connection, socket = connect()
    task = await start_exchange(connection)
    socket.arrive(head(200) + b"half")
    socket.end(ConnectionResetError())
    await task
    assert await connection.read() == b"half"
    with pytest.raises(UpstreamError) as broken:
        await connection.read()
    assert broken.value.code == "upstream_connection_broken"
    assert broken.value.detail == "the connection ended"


async def test_bytes_that_came_before_the_break_are_read_before_it():
    connection, socket = connect()
    task = await start_exchange(connection)
    socket.arrive(head(200, "Content-Length: 9") + b"abc")
    socket.end()
    await task
    assert await connection.read() == b"abc"
    for _ in range(2):
        with pytest.raises(UpstreamError):
            await connection.read()


async def test_reading_pauses_at_the_bound_and_goes_on_once_read():
    connection, socket = connect()
    task = await start_exchange(connection)
    socket.arrive(CHUNKED)
    await task
    arrived = 0
    for _ in range(3):
        while not socket.is_paused:
            socket.arrive(chunked_body(b"x" * 5000, ends=False))
            arrived += 5000
        assert BOUND < arrived <= BOUND + 5000
        assert await connection.read() == b"x" * arrived
        assert not socket.is_paused
        arrived = 0
    socket.arrive(b"0\r\n\r\n")
    assert await connection.read() == b""
    assert connection.is_reusable


async def test_a_connection_that_nobody_read_to_its_pause_is_not_used_again():
    connection, socket = connect()
    task = await start_exchange(connection)
    socket.arrive(head(200, f"Content-Length: {BOUND + 1}") + b"x" * (BOUND + 1))
    await task
    assert socket.is_paused
    assert not connection.is_reusable
    await whole(connection)
    assert connection.is_reusable


async def test_a_connection_whose_request_is_not_sent_whole_is_not_used_again():
    connection, socket = connect()
    socket.unsent = 1  # of a handshake
    assert await receive_answer(connection, socket) == b"ok"
    assert not connection.is_reusable
    socket.unsent = 0
    assert connection.is_reusable


async def test_a_connection_is_not_used_again_while_somebody_waits_on_it():
    connection, socket = connect()
    task = await start_exchange(connection)
    socket.arrive(head(200, "Content-Length: 2"))
    await task
    reading = asyncio.ensure_future(connection.read())
    await asyncio.sleep(0)
    socket.arrive(b"ok")
    assert not connection.is_reusable
    assert await reading == b"ok"
    assert connection.is_reusable


@pytest.mark.parametrize("is_begun", [False, True])
async def test_cancelling_a_wait_leaves_a_connection_that_is_not_used_again(is_begun):
    connection, socket = connect()
    waiting: asyncio.Task[Any] = await start_exchange(connection)
    if is_begun:
        socket.arrive(head(200, "Content-Length: 2"))
        await waiting
        waiting = asyncio.ensure_future(connection.read())
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not connection.is_reusable
    socket.arrive(OK[-2:] if is_begun else OK)  # what comes late harms nobody
    socket.end()


@pytest.mark.parametrize(
    ("uses", "answer", "after", "is_stale"),
    [
        (0, b"", 0.0, False),
        (1, b"", 0.0, True),
        (1, b"H", 0.0, False),
        (1, head(100), 0.0, False),
        (1, b"", 5.0, False),
    ],
)
async def test_only_a_used_connection_that_ends_soon_and_in_silence_was_stale(
    uses, answer, after, is_stale
):
    connection, socket = connect()
    for _ in range(uses):
        await receive_answer(connection, socket)
    task = await start_exchange(connection)
    connection._sent_at -= after
    socket.arrive(answer)
    socket.end(ConnectionResetError())
    with pytest.raises(UpstreamError):
        await task
    assert connection.is_stale == is_stale


async def test_a_connection_that_ended_while_idle_takes_no_request():
    connection, socket = connect()
    await receive_answer(connection, socket)
    socket.end()
    assert not connection.is_reusable
    with pytest.raises(UpstreamError):
        await connection.exchange(REQUEST, b"")


async def test_headers_belong_to_their_own_answer():
    connection, socket = connect()
    await receive_answer(connection, socket, head(200, "Content-Length: 0", "Team: a"))
    first = connection.headers
    await receive_answer(connection, socket, head(103, "Team: x") + OK)
    assert first == {"content-length": "0", "team": "a"}
    assert connection.headers == {"content-length": "2"}
