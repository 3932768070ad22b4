"""The HTTP server around the app: its socket, its settings, its end."""

import asyncio
import gc
import logging
import socket
import sys
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from proxy.api.connections.arrival_deadlines import ArrivalTimeouts
from proxy.api.connections.connection_limit import (
    ConnectionLimit,
    connections_within,
    open_descriptor_limit,
)
from proxy.api.connections.guarded_connection import ConnectionGuard
from proxy.api.connections.server_protocol import ServerProtocol
from proxy.api.connections.trusted_proxies import TrustedProxies
from proxy.settings import Settings

#: Connections that wait to be taken.
BACKLOG = 4096
#: Seconds that calls get to leave their receipts once they are cut off.
_SETTLE_TIMEOUT_S = 5.0


def listener(settings: Settings) -> socket.socket:
    """A socket bound to the settings' address; it takes no connections yet.

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
    protocol = partial(ServerProtocol, guard=_guard(settings))
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http=cast("type[ServerProtocol]", protocol),
            ws="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=settings.keep_alive_timeout,
            timeout_graceful_shutdown=int(settings.drain_grace) or 1,
            backlog=BACKLOG,
        )
    )


def _guard(settings: Settings) -> ConnectionGuard:
    descriptors = open_descriptor_limit()
    return ConnectionGuard(
        limit=ConnectionLimit(
            total=connections_within(descriptors, settings.max_calls),
            per_address=settings.connections_per_address,
        ),
        timeouts=ArrivalTimeouts(
            headers=settings.header_timeout,
            body_window=settings.body_rate_window,
            body_min_rate=settings.body_min_rate,
            unread=settings.stall_timeout,
        ),
        proxies=TrustedProxies(settings.trusted_proxies),
    )


async def stop(stopped: uvicorn.Server) -> None:
    """End the calls that still run when the server has stopped; each leaves its receipt."""
    calls = set(stopped.server_state.tasks)
    for call in calls:
        call.cancel()
    if calls:
        await asyncio.wait(calls, timeout=_SETTLE_TIMEOUT_S)


def tune_garbage_collector() -> None:
    """Tune the garbage collector: loaded objects stay, and calls leave little garbage.

    A full collection walks everything that is alive, for a tenth of a second once the gateway is
    loaded, and a call's objects are freed by their counts. Background threads hold the interpreter
    for a millisecond at most while a call waits for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)
    sys.setswitchinterval(0.001)
