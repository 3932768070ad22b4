"""The command line; the only place that prints."""

import asyncio
import errno
import logging
import signal
import socket
import time
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib import metadata
from typing import Annotated, NoReturn
from zoneinfo import ZoneInfo

import typer
import uvloop
from rich.console import Console
from rich.text import Text
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from dashboards.reports import Part, Period
from proxy import app
from proxy.catalog.entries import Catalog
from proxy.catalog.problems import BadCatalog, report
from proxy.commands import budgets, explain, layouts, savings
from proxy.commands.terminal import Terminal, grid, sentence
from proxy.demo.spending import spending
from proxy.limits.standing import NotAlone, check_counters, promised
from proxy.replay import command as replay
from proxy.settings import InvalidSettings, Settings, read, upstream_keys
from proxy.store.database import open_database
from proxy.store.store import Store
from proxy.store.teams import Team
from slo.promises.file import Promises
from slo.promises.table import BadPromises

_commands = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A gateway in front of language models. Settings are THRIFTGATE_… environment variables.",
)
_keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke callers' keys.")
_teams = typer.Typer(no_args_is_help=True, help="Make and list teams.")
_commands.add_typer(_keys, name="key")
_commands.add_typer(_teams, name="team")

# Names that people chose are printed, and none of them is markup.
_err = Console(stderr=True, highlight=False, markup=False, emoji=False)
_out = Console(highlight=False, markup=False, emoji=False)


class _Part(StrEnum):
    FEATURE = "feature"
    MODEL = "model"
    ROUTE = "route"


_PARTS: dict[_Part, Part] = {
    _Part.FEATURE: "feature",
    _Part.MODEL: "model",
    _Part.ROUTE: "route",
}
Quiet = Annotated[bool, typer.Option("--quiet", help="Print the result and nothing else.")]


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
    _promises(settings)
    with _listener(settings) as listener:
        opened = _open(settings)
        try:
            uvloop.run(_serve(settings, opened, listener, known))
        except* NotAlone as refused:
            _fail(str(refused.exceptions[0]))


async def _serve(
    settings: Settings, opened: Store, listener: socket.socket, known: Catalog
) -> None:
    async with app.gateway(settings, opened) as gateway:
        _welcome(opened)
        server = app.server(gateway.app, settings)
        app.tune()
        # The server raises the signal again once it has stopped; the journal is to be drained yet.
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, lambda: None)
        listener.listen(app.BACKLOG)
        _introduce(settings, known, listener.getsockname()[1])
        await server.serve(sockets=[listener])
        await app.stop(server)
    _err.print("Thriftgate stopped.")


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
    keyed = upstream_keys(upstream.key_env for upstream in known.upstreams.values())
    having, lacking = [], []
    for upstream in known.upstreams.values():
        if not upstream.key_env or upstream.key_env in keyed:
            having.append(upstream.name)
        else:
            lacking.append(f"{upstream.name} ({upstream.key_env})")
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    file = f" and {settings.catalog}" if settings.catalog else ""
    for line in (
        f"Ledger: {make_url(app.database_url(settings)).render_as_string()}",
        f"Catalog: {len(known.models)} models, as shipped{file}",
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


@_commands.command()
def check() -> None:
    """Validate settings and catalog; name file, line and mend of each problem."""
    settings = _settings()
    known = _catalog(settings)
    try:
        if settings.database_url:
            open_database(settings.database_url).dispose()
    except ValueError as error:
        _fail(f"THRIFTGATE_DATABASE_URL: {error}")
    promises = _promises(settings)
    if known.warnings:
        _out.print(report(known.warnings), soft_wrap=True)
    _out.print(
        f"Settings and catalog are sound:"
        f" {len(known.models)} models, {len(known.upstreams)} upstreams,"
        f" {len(promises.budgets)} budgets."
    )


@_commands.command()
def migrate() -> None:
    """Bring the database to the newest schema; every other command does so too when it opens it."""
    with _terminal.store():
        _out.print("The database has the newest schema.")


@_commands.command(name="report")
def report_command(
    *,
    days: Annotated[int, typer.Option(help="How many days, today included.", min=1)] = 30,
    zone: Annotated[str, typer.Option(help="IANA time zone the days are in.")] = "UTC",
    by: Annotated[list[_Part] | None, typer.Option(help="What else to split by.")] = None,
) -> None:
    """Cost, tokens and hit rate by team, and by feature, model or route if asked."""
    try:
        today = datetime.fromtimestamp(_now(), ZoneInfo(zone)).date() + timedelta(days=1)
    except (ValueError, KeyError) as error:
        _fail(f"--zone {zone}: {error}")
    period = Period(first=today - timedelta(days=days), end=today, zone=zone)
    parts: list[Part] = [_PARTS[part] for part in dict.fromkeys(by or ())]
    with _terminal.store() as opened:
        names = _terminal.names(opened)
        rows = opened.reports.spend(period, ("team", *parts))
        total = opened.reports.spend(period, ())
    if rows:
        _out.print(spending(rows, names, total, parts))
    else:
        _out.print(f"No calls in the last {days} days.")


@_keys.command("create")
def key_create(
    *,
    team: Annotated[str, typer.Option(help="The team's name; made if there is none.")],
    name: Annotated[str, typer.Option(help="What to call the key.")] = "",
    feature: Annotated[str, typer.Option(help="The feature of calls that name none.")] = "",
    quiet: Quiet = False,
) -> None:
    """Make a key and print it; it is shown this once."""
    with _terminal.store() as opened:
        owner = _team(opened, team) or opened.teams.create(team, now=_now())
        key, secret = opened.teams.create_key(owner.id, name, now=_now(), feature=feature)
    if quiet:
        print(secret)
        return
    _out.print(f"Key {key.id} of team {owner.name}:", _bold(secret), soft_wrap=True)
    _out.print("It is shown this once; only its hash is kept.")


@_keys.command("list")
def key_list() -> None:
    """All keys, by team; never their secrets."""
    table = grid("team", "key", "name", "ends in", "feature", "state")
    with _terminal.store() as opened:
        for team in opened.teams.all():
            for key in opened.teams.keys(team.id):
                state = "open" if key.revoked_at is None else "revoked"
                table.add_row(team.name, key.id, key.name, key.hint, key.feature, state)
    _terminal.show(table)


@_keys.command("revoke")
def key_revoke(key: Annotated[str, typer.Argument(help="The key's id, key_….")]) -> None:
    """Close a key for good; running gateways notice within seconds."""
    with _terminal.store() as opened:
        revoked = opened.teams.revoke(key, now=_now())
    if not revoked:
        _fail(f"There is no open key with the id {key}. `thriftgate key list` shows them.")
    _out.print(f"Key {key} is revoked.")


@_teams.command("create")
def team_create(
    name: Annotated[str, typer.Argument(help="The team's name.")],
    *,
    keep_prompts: Annotated[
        bool, typer.Option("--keep-prompts", help="Store the text of its prompts.")
    ] = False,
) -> None:
    """Make a team."""
    with _terminal.store() as opened:
        try:
            made = opened.teams.create(name, now=_now(), keeps_prompts=keep_prompts)
        except ValueError as error:
            _fail(f"{sentence(error)}.")
    _out.print(f"Team {made.name} has the id {made.id}.")


@_teams.command("list")
def team_list() -> None:
    """All teams."""
    table = grid("team", "id", "keeps prompts")
    with _terminal.store() as opened:
        for team in opened.teams.all():
            table.add_row(team.name, team.id, "yes" if team.keeps_prompts else "no")
    _terminal.show(table)


def _team(opened: Store, name: str) -> Team | None:
    return next((team for team in opened.teams.all() if team.name == name), None)


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


def _promises(settings: Settings) -> Promises:
    try:
        check_counters(settings)
        return promised(settings)
    except BadPromises as bad:
        _fail(str(bad))
    except ValueError as error:
        _fail(f"THRIFTGATE_REDIS_URL: {error}")
    except OSError as error:
        _fail(f"The promises cannot be read: {error}. THRIFTGATE_PROMISES names them.")


def _listener(settings: Settings) -> socket.socket:
    try:
        return app.listener(settings)
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
        _fail(f"The database is away: {str(error).splitlines()[0]}")
    except OSError as error:
        _fail(f"THRIFTGATE_FOLDER cannot be written: {error}")


def _bold(text: str) -> Text:
    return Text(text, style="bold")


def _now() -> float:
    return time.time()  # noqa: TID251 - the command line is a person's clock


def _fail(message: str) -> NoReturn:
    _err.print(message, style="red", soft_wrap=True)
    raise typer.Exit(1)


_commands.command(name="replay")(replay.command(lambda: _catalog(_settings()), _now))
_terminal = Terminal(lambda: _open(_settings()), _now, _out, _fail)
_commands.add_typer(layouts.layouts(_terminal), name="layout")
_commands.command(name="savings")(savings.savings(_terminal))
_commands.command(name="misses")(savings.misses(_terminal))
_commands.command(name="budgets")(budgets.budgets(_terminal, _settings, _promises))
_commands.command(name="explain")(explain.explain(_terminal))
