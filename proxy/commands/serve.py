"""``thriftgate serve``: the gateway itself, from its first key to its last receipt."""

import asyncio
import errno
import logging
import signal
import socket
from contextlib import suppress
from typing import Final

import uvloop
from rich.text import Text
from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from proxy import app, serving
from proxy.catalog.catalog import Catalog
from proxy.commands import savings, session
from proxy.commands.check import counted, keyed, warn
from proxy.commands.keeping import few_descriptors, unkeepable
from proxy.limits.standing import NotAlone
from proxy.settings import Settings
from proxy.store.store import Store

#: Days of which `serve` says what planning saved, and seconds the ledger has to tell.
_LATELY_DAYS: Final = 30
_AT_ONCE: Final = 2.0


def serve() -> None:
    """Take calls until told to stop.

    With OPENAI_API_KEY or ANTHROPIC_API_KEY set there is nothing else to configure: on the first
    start a team named `default` and a key for it are made, and the key is printed once.
    """
    settings = session.settings()
    known = session.catalog(settings)
    session.policies(settings, known)
    if why := unkeepable(settings.folder):
        session.fail(why)
    for why in few_descriptors(serving.raise_descriptor_limit(), settings.max_calls):
        logging.getLogger("thriftgate").warning("%s", why)
    with _listener(settings) as listener:
        opened = session.store(settings)
        try:
            uvloop.run(_serve(settings, opened, listener, known))
        except* NotAlone as refused:
            session.fail(str(refused.exceptions[0]))
        if lost := opened.journal.lost:
            session.fail(f"{lost} receipts could be kept nowhere: each is a line of the log.")


async def _serve(
    settings: Settings, opened: Store, listener: socket.socket, known: Catalog
) -> None:
    await warn(settings, known)
    async with app.gateway(settings, opened) as gateway:
        _welcome(opened)
        server = serving.server(gateway.app, settings)
        serving.tune()
        # The server raises the signal again once it has stopped; the journal is to be drained yet.
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, lambda: None)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, gateway.reload)
        listener.listen(serving.BACKLOG)
        _introduce(settings, known, listener.getsockname()[1])
        await _print_savings(opened)
        await server.serve(sockets=[listener])
        await serving.stop(server)
    session.err.print("Thriftgate stopped.")


async def _print_savings(opened: Store) -> None:
    """Print what planning saved lately; nothing where the ledger does not answer at once."""
    since = session.now() - _LATELY_DAYS * 86_400.0
    with suppress(TimeoutError, SQLAlchemyError):
        async with asyncio.timeout(_AT_ONCE):
            found = await opened.ask(opened.savings.estimates, since)
        if said := savings.summary(_LATELY_DAYS, found.values()):
            session.err.print(said)


def _welcome(opened: Store) -> None:
    """Make the first team and key, where there is no team, and print the key."""
    if opened.teams.all():
        return
    team = opened.teams.create("default", now=session.now())
    _, secret = opened.teams.create_key(team.id, "first", now=session.now())
    session.out.print(
        "No team yet: made team `default` with the key", Text(secret, style="bold"), soft_wrap=True
    )
    session.out.print(
        "It is shown this once. More: thriftgate key create --team NAME", soft_wrap=True
    )


def _introduce(settings: Settings, known: Catalog, port: int) -> None:
    """Print what a person who starts it has to know."""
    having, lacking = keyed(known)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    file = f" and {settings.catalog}" if settings.catalog else ""
    for line in (
        f"Ledger: {make_url(settings.ledger_url).render_as_string()}",
        f"Catalog: {len(known.models)} models, as shipped{file}",
        _policies(settings),
        f"Upstreams ready: {', '.join(having) or 'none, so no call can be answered yet'}",
        *([f"Upstreams without a key, and what to set: {', '.join(lacking)}"] if lacking else []),
        f"Thriftgate listens: set base_url to http://{host}:{port}/v1",
    ):
        session.out.print(line, soft_wrap=True)


def _policies(settings: Settings) -> str:
    if settings.promises is None:
        return "Promises: none; THRIFTGATE_PROMISES names a file of budgets and objectives"
    return f"Promises: {counted(session.policies(settings))}, from {settings.promises}"


def _listener(settings: Settings) -> socket.socket:
    try:
        return serving.listener(settings)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = "it is taken. THRIFTGATE_PORT names another; 0 takes any that is free."
        else:
            why = f"{error.strerror}. THRIFTGATE_HOST and THRIFTGATE_PORT say where."
        session.fail(f"Cannot listen on port {settings.port} of {settings.host}: {why}")
