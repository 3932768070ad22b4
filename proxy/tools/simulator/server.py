"""Plays an answer's steps as an ASGI response, on a port inside the event loop that asks for it."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from struct import pack

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from proxy.tools.simulator.streams import StreamStep
from proxy.tools.simulator.upstream import SimulatedExchange, Sleep
from slo.usage import Usage

#: The ASGI extension with which the simulator's own server lets a connection be reset.
RESET = "thriftgate.simulator.reset"


class PlayedResponse(Response):
    """An answer that is a sequence of steps.

    The steps are taken one by one as they are played, so what they do to a cache happens in time.
    """

    def __init__(
        self,
        exchange: SimulatedExchange,
        steps: Iterable[StreamStep],
        *,
        sleep: Sleep,
        status: int,
        usage: Usage | None = None,
        headers: Sequence[tuple[str, str]],
    ) -> None:
        self.background = None
        self.status_code = status
        self.raw_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        self._exchange = exchange
        self._steps = steps
        self._sleep = sleep
        self._usage = usage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Play the steps until they end or the client leaves.

        Raises:
            ConnectionResetError: If a step cuts the connection and the server cannot.
        """
        try:
            await self._play_until_disconnect(receive, send, scope.get("extensions", {}).get(RESET))
        finally:
            self._exchange.over.set()

    async def _play_until_disconnect(
        self, receive: Receive, send: Send, reset: Callable[[], None] | None
    ) -> None:
        async with asyncio.TaskGroup() as group:
            playing = group.create_task(self._play_and_reset(send, reset))
            watching = group.create_task(self._watch(receive, playing))
            playing.add_done_callback(lambda _: watching.cancel())
        if not playing.cancelled() and playing.result():
            raise ConnectionResetError("The simulator cut the connection.")

    async def _play_and_reset(self, send: Send, reset: Callable[[], None] | None) -> bool:
        """True if the connection is to be cut and the server cannot."""
        if not await self._play(send):
            return False
        if reset is not None:
            reset()
            await asyncio.Event().wait()  # until the watch sees the connection gone
        return True

    async def _watch(self, receive: Receive, playing: asyncio.Task[bool]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._exchange.hung_up = not self._exchange.complete
        playing.cancel()

    async def _play(self, send: Send) -> bool:
        """True if the connection is to be cut now."""
        for step in self._steps:
            match step.kind:
                case "wait":
                    await self._sleep(step.seconds)
                case "head":
                    await self._begin(send)
                case "charge":
                    self._exchange.usage = self._usage
                case "send":
                    await self._pass(send, step)
                case "silence":
                    await asyncio.Event().wait()
                case _:
                    self._exchange.complete = True
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)  # a uvloop transport writes at the end of its turn
                    return True
        self._exchange.complete = True
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return False

    async def _begin(self, send: Send) -> None:
        if not self._exchange.status:
            self._exchange.status = self.status_code
            start = {"type": "http.response.start", "status": self.status_code}
            await send(start | {"headers": self.raw_headers})

    async def _pass(self, send: Send, step: StreamStep) -> None:
        self._exchange.sent += step.data
        self._exchange.delivered += step.tokens
        await send({"type": "http.response.body", "body": step.data, "more_body": True})
        await asyncio.sleep(0)


_LINGER = pack("ii", 1, 0)  # on, for no time: closing drops what is unsent and resets


@asynccontextmanager
async def serving(app: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    """The base URL, up to and including ``/v1``, while the app answers there; 0 takes a free port.

    No signal is caught and nothing is logged. On leaving, every connection is cut.
    """
    config = Config(
        app,
        http=_Protocol,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=75,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Protocol(config, state, {}, loop), "127.0.0.1", port, backlog=1024
    )
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.gather(*state.tasks, return_exceptions=True)
        await server.wait_closed()


class _Protocol(HttpToolsProtocol):
    """uvicorn's, with a way for the app to reset its connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {RESET: self._reset}  # type: ignore[dict-item] # ours, not ASGI's

    def _reset(self) -> None:
        connection = self.transport.get_extra_info("socket")
        if connection is not None and not self.transport.is_closing():
            with socket.socket(fileno=os.dup(connection.fileno())) as same:
                same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        self.transport.abort()
