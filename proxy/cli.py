"""The command line; the only place that prints."""

import asyncio
import errno
import logging
import signal
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated, Final, NoReturn

import typer
import uvloop
from rich.console import Console
from rich.text import Text
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from proxy import app, serving
from proxy.alerts.outlets import outlets, variables
from proxy.catalog.catalog import Catalog
from proxy.catalog.problems import BadCatalog, report
from proxy.commands import (
    alerts,
    budgets,
    compact,
    compactions,
    explain,
    export,
    keys,
    lab,
    layouts,
    objectives,
    savings,
)
from proxy.commands import report as reporting
from proxy.commands.doubts import assumptions, doubts, teams, unasked, unnoted
from proxy.commands.keeping import crowded, unkeepable
from proxy.commands.terminal import Terminal
from proxy.limits.standing import NotAlone, away, check_counters, promised
from proxy.replay import command as replay
from proxy.settings import InvalidSettings, Settings, read, upstream_keys
from proxy.store.database import open_database
from proxy.store.store import Store
from slo.promises.file import Promises
from slo.promises.table import BadPromises

_commands = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="A gateway in front of language models. Settings are THRIFTGATE_… environment variables.",
)
# Names that people chose are printed, and none of them is markup.
_err = Console(stderr=True, highlight=False, markup=False, emoji=False)
_out = Console(highlight=False, markup=False, emoji=False)
#: Days of which `serve` says what planning saved, and seconds the ledger has to tell.
_LATELY_DAYS: Final = 30
_AT_ONCE: Final = 2.0
_AWAY: Final = "THRIFTGATE_REDIS_URL names a Redis that is away, and budgets may refuse calls"


def _told(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        _out.print(f"thriftgate {metadata.version('thriftgate')}")
        raise typer.Exit


@_commands.callback()
def _options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_told, is_eager=True),
    ] = False,
) -> None:
    """A gateway in front of language models. Settings are THRIFTGATE_… environment variables."""


def main() -> None:
    """Run the command line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    _commands()


@_commands.command()
def serve() -> None:
    """Take calls until told to stop.

    With OPENAI_API_KEY or ANTHROPIC_API_KEY set there is nothing else to configure: on the first
    start a team named `default` and a key for it are made, and the key is printed once.
    """
    settings = _settings()
    known = _catalog(settings)
    _promises(settings, known)
    if why := unkeepable(settings.folder):
        _fail(why)
    with _listener(settings) as listener:
        opened = _open(settings)
        try:
            uvloop.run(_serve(settings, opened, listener, known))
        except* NotAlone as refused:
            _fail(str(refused.exceptions[0]))


async def _serve(
    settings: Settings, opened: Store, listener: socket.socket, known: Catalog
) -> None:
    if why := await away(settings):
        logging.getLogger("thriftgate").warning("%s: %s", _AWAY, why)
    if why := unnoted(settings, known):
        logging.getLogger("thriftgate").warning("%s. No notes are taken", why)
    async with app.gateway(settings, opened) as gateway:
        _welcome(opened)
        server = serving.server(gateway.app, settings)
        serving.tune()
        # The server raises the signal again once it has stopped; the journal is to be drained yet.
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, lambda: None)
        listener.listen(serving.BACKLOG)
        _introduce(settings, known, listener.getsockname()[1])
        await _tell_savings(opened)
        await server.serve(sockets=[listener])
        await serving.stop(server)
    _err.print("Thriftgate stopped.")


async def _tell_savings(opened: Store) -> None:
    """Say what planning saved lately; nothing where the ledger does not tell at once."""
    since = _now() - _LATELY_DAYS * 86_400.0
    with suppress(TimeoutError, SQLAlchemyError):
        async with asyncio.timeout(_AT_ONCE):
            found = await opened.ask(opened.savings.estimates, since)
        if said := savings.summary(_LATELY_DAYS, found.values()):
            _err.print(said)


def _welcome(opened: Store) -> None:
    """Make the first team and key, where there is no team, and print the key."""
    if opened.teams.all():
        return
    team = opened.teams.create("default", now=_now())
    _, secret = opened.teams.create_key(team.id, "first", now=_now())
    _out.print("No team yet: made team `default` with the key", _bold(secret), soft_wrap=True)
    _out.print("It is shown this once. More: thriftgate key create --team NAME", soft_wrap=True)


def _introduce(settings: Settings, known: Catalog, port: int) -> None:
    """Print what a person who starts it has to know."""
    having, lacking = _keyed(known)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    file = f" and {settings.catalog}" if settings.catalog else ""
    for line in (
        f"Ledger: {make_url(app.database_url(settings)).render_as_string()}",
        f"Catalog: {len(known.models)} models, as shipped{file}",
        _promised(settings),
        f"Upstreams ready: {', '.join(having) or 'none, so no call can be answered yet'}",
        *([f"Upstreams without a key, and what to set: {', '.join(lacking)}"] if lacking else []),
        f"Thriftgate listens: set base_url to http://{host}:{port}/v1",
    ):
        _out.print(line, soft_wrap=True)


@_commands.command()
def demo(
    *,
    leave: Annotated[bool, typer.Option("--exit", help="End after the table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON only.")] = False,
    port: Annotated[
        int,
        typer.Option(envvar="THRIFTGATE_PORT", help="Where to listen, or on the next free port."),
    ] = 8080,
    calls: Annotated[int, typer.Option(help="How many calls to send.", min=1)] = 200,
) -> None:
    """Show it: a gateway before a simulated upstream, and the calls of two teams.

    Nothing has to be set up and nothing is left behind. With --exit the status is 0 if every call
    was answered and stands in the ledger once, else 1.
    """
    from proxy.demo import run  # noqa: PLC0415 - the SDK takes a second to import

    logging.getLogger().setLevel(logging.ERROR)
    try:
        status = run.run(
            Console(quiet=as_json, highlight=False),
            now=datetime.fromtimestamp(_now(), UTC),
            port=port,
            stays=not leave,
            count=calls,
            tell=lambda result: print(result.json(), flush=True) if as_json else None,
        )
    except OSError as error:
        _fail(f"The demo cannot start: {error}")
    raise typer.Exit(status)


def _promised(settings: Settings) -> str:
    promises = _promises(settings)
    if settings.promises is None:
        return "Promises: none; THRIFTGATE_PROMISES names a file of budgets and objectives"
    return f"Promises: {_counted(promises)}, from {settings.promises}"


def _counted(promises: Promises) -> str:
    counts = {
        "budgets": promises.budgets,
        "ceilings": promises.ceilings,
        "objectives": promises.objectives,
        "sinks": promises.sinks,
    }
    found = [
        f"{len(each)} {name if len(each) > 1 else name.removesuffix('s')}"
        for name, each in counts.items()
        if each
    ]
    return ", ".join(found) or "none"


@_commands.command()
def check() -> None:
    """Validate settings and catalog, and try the folder; name file, line and mend of problems."""
    settings = _settings()
    known = _catalog(settings)
    try:
        if settings.database_url:
            open_database(settings.database_url).dispose()
    except ValueError as error:
        _fail(f"THRIFTGATE_DATABASE_URL: {error}")
    promises = _promises(settings, known)
    if why := unnoted(settings, known) or unkeepable(settings.folder):
        _fail(why)
    if known.warnings:
        _out.print(report(known.warnings), soft_wrap=True)
    if lacking := _keyed(known)[1]:
        # Few have an account with each, so it is no mistake.
        said = f"Note: no key is set for {', '.join(lacking)}: calls that go there would fail."
        _out.print(said, soft_wrap=True)
    for why in (
        *outlets(promises.sinks, upstream_keys(variables(promises.sinks)))[1],
        *doubts(promises, known, teams(app.database_url(settings))),
        *assumptions(known),
        *unasked(settings, settings.compaction),
        *crowded(settings.folder),
        *_away(settings),
    ):
        _out.print(f"Note: {why}", soft_wrap=True)
    told = f"{len(known.models)} models, {len(known.upstreams)} upstreams"
    if settings.promises is not None:
        told = f"{told}, {_counted(promises)}"
    _out.print(f"Settings and catalog are sound: {told}.", soft_wrap=True)


def _away(settings: Settings) -> list[str]:
    """What is to be known of a Redis that is away; [] where it is not."""
    why = asyncio.run(away(settings))
    return [f"{_AWAY}: {why}"] if why else []


def _keyed(known: Catalog) -> tuple[list[str], list[str]]:
    """The upstreams that have the key they need, and those without, with the variable to set."""
    keyed = upstream_keys(upstream.key_env for upstream in known.upstreams.values())
    having, lacking = [], []
    for upstream in known.upstreams.values():
        if not upstream.key_env or upstream.key_env in keyed:
            having.append(upstream.name)
        else:
            lacking.append(f"{upstream.name} ({upstream.key_env})")
    return having, lacking


@_commands.command()
def migrate() -> None:
    """Bring the database to the newest schema; every other command does so too when it opens it."""
    with _terminal.store():
        _out.print("The database has the newest schema.")


def _settings() -> Settings:
    try:
        return read()
    except InvalidSettings as error:
        _fail(str(error))


def _catalog(settings: Settings) -> Catalog:
    try:
        return app.catalog(settings)
    except BadCatalog as bad:
        _fail(report(bad.problems))
    except OSError as error:
        _fail(f"The catalog cannot be read: {error}. THRIFTGATE_CATALOG names it.")


def _promises(settings: Settings, known: Catalog | None = None) -> Promises:
    try:
        check_counters(settings)
        return promised(settings, known)
    except BadPromises as bad:
        _fail(str(bad))
    except ValueError as error:
        _fail(f"THRIFTGATE_REDIS_URL: {error}")
    except OSError as error:
        _fail(f"The promises cannot be read: {error}. THRIFTGATE_PROMISES names them.")


def _listener(settings: Settings) -> socket.socket:
    try:
        return serving.listener(settings)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = "it is taken. THRIFTGATE_PORT names another; 0 takes any that is free."
        else:
            why = f"{error.strerror}. THRIFTGATE_HOST and THRIFTGATE_PORT say where."
        _fail(f"Cannot listen on port {settings.port} of {settings.host}: {why}")


def _open(settings: Settings) -> Store:
    try:
        return app.store(settings)
    except (ValueError, ArgumentError) as error:
        _fail(f"THRIFTGATE_DATABASE_URL: {error}")
    except SQLAlchemyError as error:
        why = str(error).splitlines()[0]
        _fail(unkeepable(settings.folder) or f"The database is away: {why}")
    except OSError as error:
        _fail(unkeepable(settings.folder) or f"THRIFTGATE_FOLDER cannot be written: {error}")


def _bold(text: str) -> Text:
    return Text(text, style="bold")


def _now() -> float:
    return time.time()  # noqa: TID251 - the command line is a person's clock


def _fail(message: str) -> NoReturn:
    _err.print(message, style="red", soft_wrap=True)
    raise typer.Exit(1)


_commands.command(name="replay")(replay.command(lambda: _catalog(_settings()), _now))
_terminal = Terminal(lambda: _open(_settings()), _now, _out, _fail)
_commands.add_typer(keys.keys(_terminal), name="key")
_commands.add_typer(keys.teams(_terminal), name="team")
_commands.command(name="report")(reporting.report(_terminal))
_commands.add_typer(layouts.layouts(_terminal), name="layout")
compact.compact(_commands, _terminal, lambda: _catalog(_settings()))
_commands.add_typer(compactions.compactions(_terminal, _settings), name="compaction")
_commands.command(name="savings")(savings.savings(_terminal))
_commands.command(name="misses")(savings.misses(_terminal))
_commands.command(name="budgets")(budgets.budgets(_terminal, _settings, _promises))
_commands.add_typer(objectives.objectives(_terminal, _settings, _promises), name="objectives")
_commands.add_typer(alerts.alerts(_terminal, _settings, _promises), name="alerts")
_commands.command(name="explain")(explain.explain(_terminal))
_commands.command(name="export")(export.export(_terminal))
_commands.command(name="lab")(lab.lab(_terminal, lambda: app.catalog(read({}))))
