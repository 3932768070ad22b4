"""The process of ``thriftgate serve``: the gateway from its first key to its last receipt."""

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import metadata
from typing import Final, NoReturn

import uvloop
from rich.text import Text
from starlette.types import ASGIApp

from dashboards.access import sign_in_url
from dashboards.report_summary.savings_sentences import headline_sentences
from dashboards.reports import latest_days
from proxy import app
from proxy.api.connections import serving
from proxy.api.connections.connection_limit import raise_descriptor_limit
from proxy.api.connections.starting import SwitchableApp, starting_app
from proxy.api.cors import with_cors
from proxy.catalog.catalog import Catalog
from proxy.cli import session
from proxy.cli.check import upstreams_by_key, warn
from proxy.cli.engines.engine_launch_notes import silent_replicas
from proxy.cli.reports import savings
from proxy.cli.storage_checks import low_descriptor_warning
from proxy.cli.warnings import known_keys_obstacle
from proxy.configuration import Snapshot, count_policies, read_engines
from proxy.engines.state.state_file import read_engine_states
from proxy.errors import OperatorError, first_error
from proxy.records.amounts import quantity
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.sql.access.known_keys import (
    FILE_NAME,
    KnownKeys,
    read_known_keys,
    remove_known_keys,
)
from proxy.store.sql.database import address
from proxy.store.sql.ids import call_ids
from proxy.store.sql.startup import is_available, open_when_available
from proxy.store.store import Store, check_database, open_known_store, open_store
from slo.policies.file import Policies

_log = logging.getLogger("thriftgate")

#: Days of which `serve` says what was saved, and seconds the ledger has to tell.
_SAVINGS_DAYS: Final = 30
_SAVINGS_TIMEOUT_S: Final = 2.0
#: The most calls in that time of which it compares control arms: to group more takes long. Where
#: there are more, `thriftgate savings` tells.
_MAX_COMPARED_CALLS: Final = 100_000
#: Log text about calls while known keys are served.
_MEANWHILE_TEXT: Final = (
    "Calls of known keys are answered, neither planned nor compacted, others get 503"
)
#: Reason that the gateway stops where the database is not the one whose keys were served meanwhile.
_OTHER_INSTALLATION: Final = (
    "The database holds another installation than when its keys were last read: it was"
    " replaced, or restored without its tables. Start again to serve what it holds now."
)


def run_gateway(settings: Settings, catalog: Catalog, policies: Policies) -> None:
    """Take calls until told to stop; ends the command where that fails or loses receipts."""
    for why in low_descriptor_warning(raise_descriptor_limit(), settings.max_calls):
        _log.warning("%s", why)
    lost, failed = 0, ""
    with _listener(settings) as listener:
        try:
            lost = uvloop.run(_serve(settings, listener, Snapshot(catalog, policies)))
        except* OperatorError as group:
            failed = str(first_error(group))
    if failed:
        session.fail(failed)
    if lost:
        receipts = quantity(lost, "receipt")
        session.fail(
            f"{receipts} could be kept nowhere: each is a line of the log."
            " `thriftgate receipts import LOG` puts them into the ledger."
        )


class _StartRefused(OperatorError):
    """The store cannot be opened, and waiting does not help."""


def _refuse_start(why: str) -> NoReturn:
    raise _StartRefused(why)


async def _serve(settings: Settings, listener: socket.socket, read: Snapshot) -> int:
    """Take calls until told to stop; return how many receipts could be kept nowhere."""
    await warn(settings, read.catalog, read.policies)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)  # nothing to reload
    async with asyncio.TaskGroup() as tasks:
        running = _RunningServer(settings, listener, tasks)
        opening = tasks.create_task(_open_store(settings, running, read.policies))
        running.on_stop = opening.cancel
        await asyncio.wait({opening})
        opened = None if opening.cancelled() else opening.result()
        if opened is not None and opened.is_offline:
            joining = tasks.create_task(_go_online(settings, opened, running))
            running.on_stop = joining.cancel
        if opened is not None:
            await _answer(settings, opened, running, read.catalog)
        if running.failure:
            _refuse_start(running.failure)
    session.err.print("Thriftgate stopped.")
    return 0 if opened is None else opened.journal.lost_receipts


async def _answer(
    settings: Settings, opened: Store, running: "_RunningServer", catalog: Catalog
) -> None:
    reads = opened.dashboard  # the process that reads for pages is not there at once
    if not opened.is_offline:
        opened.use_reader_process()
    async with app.gateway(settings, opened) as gateway:
        if not opened.is_offline:
            _make_first_key(opened)
            await asyncio.to_thread(_mark_version, opened)
        serving.tune_garbage_collector()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, gateway.reload)
        silent = await asyncio.to_thread(_silent_replicas, settings)
        port = running.listen()
        _print_introduction(settings, catalog, port, silent)
        _print_dashboard(settings, opened, port)
        await _print_savings(
            settings, opened, SavingsFigures(opened, lambda: catalog, session.now, reads)
        )
        await running.answer(gateway.app)


async def _open_store(settings: Settings, running: "_RunningServer", policies: Policies) -> Store:
    """The store, once its database is available; meanwhile the server refuses calls.

    While the database is away the store is offline, where known keys may be served.
    """
    with session.explain_unopened_store(settings, _refuse_start):
        known_keys, why = _known_keys(settings, policies)
        if known_keys is not None and not await _is_available(settings, known_keys.secret):
            return open_known_store(settings, known_keys)

        def wait() -> None:
            if why:
                _log.warning("No calls of known keys are answered meanwhile: %s", why)
            running.start()

        return await open_when_available(partial(open_store, settings), wait)


def _known_keys(settings: Settings, policies: Policies) -> tuple[KnownKeys | None, str]:
    """The keys to serve while the database is away, or why there are none; "" if none should."""
    max_age = settings.known_keys_max_age_s
    if not max_age:
        return None, ""
    if why := known_keys_obstacle(settings, policies):
        return None, why
    path = settings.folder / FILE_NAME
    try:
        return read_known_keys(path, settings.ledger_url, session.now(), max_age), ""
    except OperatorError as error:
        return None, f"{path}: {error}"


async def _is_available(settings: Settings, secret: bytes) -> bool:
    """True if the database can be used now."""
    # One of another installation is there, too, and its own keys are read.
    return await is_available(partial(check_database, settings.ledger_url, secret))


async def _go_online(settings: Settings, opened: Store, running: "_RunningServer") -> None:
    """Connect the store once its database can be used; stop the server if it never can be."""

    def check() -> None:
        if not check_database(settings.ledger_url, opened.secret):
            remove_known_keys(settings.folder / FILE_NAME)
            raise OperatorError(_OTHER_INSTALLATION)

    try:
        with session.explain_unopened_store(settings, _refuse_start):
            await open_when_available(check, lambda: None, meanwhile=_MEANWHILE_TEXT)
    except _StartRefused as refused:
        running.fail(str(refused))
    else:
        opened.go_online()
        opened.use_reader_process()


class _RunningServer:
    """The HTTP server, which refuses calls from when it is started until the gateway is ready.

    Attributes:
        on_stop: Called once it has been told to stop, and has.
        failure: Reason for stopping by itself; "" while it does not.
    """

    def __init__(
        self, settings: Settings, listener: socket.socket, tasks: asyncio.TaskGroup
    ) -> None:
        make = call_ids()
        refusing = starting_app(lambda: make(session.now()))
        self.on_stop: Callable[[], object] = lambda: None
        self.failure = ""
        self._switch = SwitchableApp(with_cors(refusing, settings.cors_origins))
        self._server = serving.server(self._switch, settings)
        self._listener = listener
        self._tasks = tasks
        self._task: asyncio.Task[None] | None = None

    def listen(self) -> int:
        """Let clients connect; return the port."""
        self._listener.listen(serving.BACKLOG)
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Answer requests, if the server does not yet."""
        if self._task is None:
            self.listen()
            # The server raises the signal again once it has stopped; the journal is to be drained.
            for signal_number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(signal_number, lambda: None)
            self._task = self._tasks.create_task(self._server.serve(sockets=[self._listener]))
            self._task.add_done_callback(lambda _: self.on_stop())

    def fail(self, why: str) -> None:
        """Stop as if told to, and remember why."""
        _log.critical("Thriftgate stops: %s", why)
        self.failure = why
        self._server.should_exit = True

    async def answer(self, ready: ASGIApp) -> None:
        """Answer by the ready app until told to stop, and end the calls that still run."""
        self._switch.app = ready
        self.start()
        if self._task is not None:
            await self._task
        await serving.stop(self._server)


async def _print_savings(settings: Settings, opened: Store, figures: SavingsFigures) -> None:
    """Print what was saved lately and what could be; no more than the ledger tells at once."""
    period = latest_days(session.now(), _SAVINGS_DAYS)
    since = float(period.bounds[0])
    with suppress(TimeoutError, StoreError):
        async with asyncio.timeout(_SAVINGS_TIMEOUT_S):
            estimates = await opened.ask(opened.savings.estimates, since)
            is_quick = sum(estimate.calls for estimate in estimates.values()) <= _MAX_COMPARED_CALLS
            if estimates and is_quick:
                headline = await opened.ask(figures.headline, period)
                _print_known(" ".join(headline_sentences(headline)[:1]))
            _print_known(await opened.ask(savings.waiting_layout_summary, opened))
            if settings.control_share and is_quick:
                names = {team.id: team.name for team in await opened.ask(opened.teams.all)}
                compared = await opened.ask(opened.savings.compare, since)
                _print_known(savings.conversations_summary(compared, names))


def _print_known(sentence: str) -> None:
    """Print a sentence for who starts the gateway; nothing for an empty one."""
    if sentence:
        session.err.print(sentence, soft_wrap=True)


def _mark_version(opened: Store) -> None:
    """Mark on charts that the gateway has a version that it never had."""
    opened.audit.mark_version(f"thriftgate {metadata.version('thriftgate')}", session.now())


def _make_first_key(opened: Store) -> None:
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


def _print_introduction(
    settings: Settings, catalog: Catalog, port: int, silent: Mapping[str, str]
) -> None:
    """Print what a person who starts it has to know; engines that are silent, with the reason."""
    having, lacking = upstreams_by_key(catalog)
    having = [name for name in having if name not in silent]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    file = f" and {settings.catalog}" if settings.catalog else ""
    for line in (
        f"Ledger: {address(settings.ledger_url)}",
        f"Catalog: {quantity(len(catalog.models), 'model')}, as shipped{file}",
        _policies(settings),
        f"Upstreams ready: {', '.join(having) or 'none, so no call can be answered yet'}",
        *([f"Upstreams without a key, and what to set: {', '.join(lacking)}"] if lacking else []),
        *(f"Engine {name} is not ready: {why}" for name, why in silent.items()),
        f"Thriftgate listens: set base_url to http://{host}:{port}/v1",
    ):
        session.out.print(line, soft_wrap=True)


def _silent_replicas(settings: Settings) -> dict[str, str]:
    if settings.engines is None:
        return {}
    return silent_replicas(read_engines(settings).values(), read_engine_states(settings.folder))


def _print_dashboard(settings: Settings, opened: Store, port: int) -> None:
    """Print the dashboard's address, with a link that signs in where nobody can sign in yet."""
    base, code = settings.browser_url(port), ""
    if not (opened.is_offline or settings.admin_token.get_secret_value()):
        code = opened.users.create_first_link(session.now())
    session.out.print("Dashboard:", Text(sign_in_url(base, code), style="bold"), soft_wrap=True)
    if code:
        session.out.print(
            f"The link signs in once, within 15 minutes. More: {_admin_link_command(settings)}",
            soft_wrap=True,
        )


def _admin_link_command(settings: Settings) -> str:
    """The command that prints another link, with what was said by options of `serve`."""
    usual = session.settings()
    given = {
        "THRIFTGATE_FOLDER": (settings.folder, usual.folder),
        "THRIFTGATE_PORT": (settings.port, usual.port),
    }
    named = (f"{name}={value} " for name, (value, other) in given.items() if value != other)
    return f"{''.join(named)}thriftgate admin link"


def _policies(settings: Settings) -> str:
    if settings.policies is None:
        return "Policies: none; THRIFTGATE_POLICIES names a file of budgets and objectives"
    return f"Policies: {count_policies(session.policies(settings))}, from {settings.policies}"


def _listener(settings: Settings) -> socket.socket:
    try:
        return serving.listener(settings)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = "it is taken. THRIFTGATE_PORT names another; 0 takes any that is free."
        else:
            why = f"{error.strerror}. THRIFTGATE_HOST and THRIFTGATE_PORT say where."
        session.fail(f"Cannot listen on port {settings.port} of {settings.host}: {why}")
