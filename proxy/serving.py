"""The HTTP server around the app: its socket, its settings, its end."""

import asyncio
import gc
import logging
import socket
import sys

import uvicorn
from starlette.types import ASGIApp

from proxy.routes.cycle import Calls
from proxy.settings import Settings

#: Connections that wait to be taken.
BACKLOG = 4096
#: Seconds that calls get to leave their receipts once they are cut off.
_SETTLING = 5.0


def listener(settings: Settings) -> socket.socket:
    """A socket bound to where these settings say; it takes no connections yet.

    Raises:
        OSError: The address is taken, or is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((settings.host, settings.port))
    except OSError:
        bound.close()
        raise
    return bound


def server(app: ASGIApp, settings: Settings) -> uvicorn.Server:
    """The HTTP server for the app; uvloop and httptools, no access log."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http=Calls,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(settings.drain_grace) or 1,
            backlog=BACKLOG,
        )
    )


async def stop(stopped: uvicorn.Server) -> None:
    """End the calls that still run when the server has stopped; each leaves its receipt."""
    calls = set(stopped.server_state.tasks)
    for call in calls:
        call.cancel()
    if calls:
        await asyncio.wait(calls, timeout=_SETTLING)


def tune() -> None:
    """Tell the interpreter that what is loaded now stays, and that calls leave little garbage.

    A full collection walks everything that is alive, for a tenth of a second once the gateway is
    loaded, and a call's objects are freed by their counts. Background threads hold the interpreter
    for a millisecond at most while a call waits for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)
    sys.setswitchinterval(0.001)
