"""Subscribes to what an engine publishes over ZeroMQ; needs the extra ``[kv-events]``."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from proxy.errors import how_to_install

#: Messages that wait here before the oldest ones are lost, which the reader notices.
_MAX_WAITING: Final = 10_000
_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024


class Subscription(Protocol):
    """Messages of one publisher."""

    async def receive(self) -> Sequence[bytes]:
        """The parts of the next message; waits for as long as it takes."""
        ...


class _ZmqSubscription:
    def __init__(self, socket: "zmq.asyncio.Socket") -> None:  # type: ignore[name-defined]  # noqa: F821
        self._socket = socket

    async def receive(self) -> Sequence[bytes]:
        """The parts of the next message."""
        parts: Sequence[bytes] = await self._socket.recv_multipart()
        return parts


@asynccontextmanager
async def subscribe(address: str) -> AsyncIterator[Subscription]:
    """A subscription to all that is published at an address; it connects again by itself.

    Raises:
        OSError: If ZeroMQ is not installed, or takes no such address.
    """
    try:
        import zmq  # noqa: PLC0415 - the extra may be absent
        import zmq.asyncio  # noqa: PLC0415
    except ImportError as error:
        what = f"pyzmq is not installed: {how_to_install('kv-events')}"
        raise OSError(what) from error
    context = zmq.asyncio.Context()
    socket = context.socket(zmq.SUB)
    try:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVHWM, _MAX_WAITING)
        socket.setsockopt(zmq.MAXMSGSIZE, _MAX_MESSAGE_BYTES)
        socket.setsockopt(zmq.SUBSCRIBE, b"")
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise OSError(f"{address}: {error}") from error
        yield _ZmqSubscription(socket)
    finally:
        socket.close()
        await asyncio.sleep(0)
        context.term()
