"""Asks over one connection whose socket is a fake."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from proxy.upstream.connection import Connection
from tests.fakes.server import head
from tests.fakes.socket import FakeSocket

REQUEST = b"POST / HTTP/1.1\r\nhost: up\r\n\r\n"
OK = head(200, "Content-Length: 2") + b"ok"
CHUNKED = head(200, "Transfer-Encoding: chunked")


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def connect() -> tuple[Connection, FakeSocket]:
    loop = asyncio.get_running_loop()
    connection = Connection(loop)
    return connection, FakeSocket(loop, connection)


async def start_exchange(connection: Connection, **how: Any) -> "asyncio.Task[None]":
    """An exchange whose request is sent."""
    task = asyncio.ensure_future(connection.exchange(REQUEST, b"", **how))
    await asyncio.sleep(0)
    return task


async def receive_answer(connection: Connection, socket: FakeSocket, answer: bytes = OK) -> bytes:
    """The body of an answer that comes at once."""
    task = await start_exchange(connection)
    socket.arrive(answer)
    await task
    return await whole(connection)


async def whole(connection: Connection) -> bytes:
    body = b""
    while piece := await connection.read():
        body += piece
    return body
