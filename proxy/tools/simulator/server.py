"""The simulator on a port of its own, inside the event loop that asks for it."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from struct import pack

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from proxy.tools.simulator.stream_player import RESET

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
