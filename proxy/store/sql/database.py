"""The database: SQLite by default with nothing to start, PostgreSQL by URL."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    URL,
    Connection,
    Dialect,
    Engine,
    Table,
    column,
    create_engine,
    delete,
    event,
    inspect,
    make_url,
    select,
    table,
)  # fmt: skip
from sqlalchemy.exc import ArgumentError

from proxy.errors import OperatorError, how_to_install
from proxy.store.errors import StoreError, translated_errors
from proxy.store.sql.sqlite_file import check_sqlite_file, prepare_sqlite

if TYPE_CHECKING:  # Alembic and psycopg are imported on use: most processes need neither
    from alembic.config import Config
    from psycopg import Connection as PostgresConnection

#: Seconds that statements which are stopped have to end, and between two tries to stop them.
_STOP_DEADLINE_S: Final = 5.0
_STOP_INTERVAL_S: Final = 0.05
#: Rows that are deleted in one step.
_ROWS_PER_DELETE: Final = 2_000

_POSTGRES = (
    "SET statement_timeout = '30s'",
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    # Compiling a sum over days and their hours takes several times as long as summing.
    "SET jit = off",
)
#: Settings of connections that only read, for pages: they cannot write, nor keep the server busy
#: for longer than a page waits, nor occupy more than one of its cores for a question.
_POSTGRES_READER = (
    "SET default_transaction_read_only = on",
    "SET statement_timeout = '5s'",
    "SET max_parallel_workers_per_gather = 0",
)
#: Has the server stop a long statement soon after the process that asked has ended.
#: Source: PostgreSQL 14, section 20.3.2 (2026-11).
_NOTICE_LEFT: Final = "SET client_connection_check_interval = '2s'"
#: Connections of pages: as many as ask at once.
_READERS: Final = 2
#: Table in which Alembic keeps the revision of the tables.
_VERSION: Final = table("alembic_version", column("version_num"))
_POSTGRES_SOCKET = {  # A database that vanishes without a word is noticed within seconds.
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class ConnectionGate:
    """Refuses all connections of an engine, as a server that is away does, until it is opened.

    Args:
        engine: It has made no connection yet.
    """

    def __init__(self, engine: Engine) -> None:
        self.is_open = False
        event.listen(engine, "do_connect", self._connect)

    def _connect(self, dialect: Dialect, *_: object) -> None:
        """None, at which the engine connects."""
        if not self.is_open:
            raise dialect.loaded_dbapi.OperationalError(
                "it has not been reached since the gateway started"
            )


def connection_problem(url: str) -> str:
    """Reason that the PostgreSQL server at ``url`` does not answer; "" where it does.

    SQLite has no server, and its file is neither made nor opened.

    Raises:
        ValueError: As ``open_database``.
    """
    if _normal(url).get_backend_name() == "sqlite":
        return ""
    engine = open_database(url)
    try:
        with translated_errors(), engine.connect():
            return ""
    except StoreError as error:
        return str(error)
    finally:
        engine.dispose()


def database_exists(url: str) -> bool:
    """False for a SQLite file that is not there yet.

    Raises:
        ValueError: As ``open_database``.
    """
    where = _normal(url)
    return where.get_backend_name() != "sqlite" or Path(where.database or "").is_file()


def open_database(url: str) -> Engine:
    """An engine for the database at ``url``; SQLite's folder is made, nothing is connected yet.

    Raises:
        ValueError: It is neither a SQLite file nor PostgreSQL.
    """
    where = _normal(url)
    if where.get_backend_name() == "sqlite":
        return prepare_sqlite(create_engine(where))
    engine = create_engine(where, pool_pre_ping=True, connect_args=_POSTGRES_SOCKET)
    return _postgres(engine, _POSTGRES)


def open_reader(url: str, timeout_s: float = 0.0) -> Engine:
    """An engine with few connections of its own that only read, for questions that may be slow.

    Nothing is connected yet, and the tables are there before something is.

    Args:
        timeout_s: Seconds that a statement may take on PostgreSQL; 0 for those of a page.

    Raises:
        ValueError: As ``open_database``.
    """
    where, size = _normal(url), {"pool_size": _READERS, "max_overflow": 0}
    if where.get_backend_name() == "sqlite":
        return prepare_sqlite(create_engine(where, **size), only_reads=True)
    engine = create_engine(where, pool_pre_ping=True, connect_args=_POSTGRES_SOCKET, **size)
    patience = (f"SET statement_timeout = '{timeout_s:.0f}s'", _NOTICE_LEFT) if timeout_s else ()
    return _postgres(engine, (*_POSTGRES, *_POSTGRES_READER, *patience))


def _postgres(engine: Engine, settings: Sequence[str]) -> Engine:
    """The engine, whose connections begin with these settings."""

    @event.listens_for(engine, "connect")
    def limit(connection: "PostgresConnection", _record: object) -> None:
        connection.autocommit = True
        for setting in settings:
            connection.execute(setting)
        connection.autocommit = False

    return engine


@contextmanager
def read_transaction(
    engine: Engine, *, is_snapshot: bool = False, statement_timeout_s: float = 0.0
) -> Iterator[Connection]:
    """A transaction that only reads; as a snapshot, all its statements see the same rows.

    On SQLite every transaction is one.

    Args:
        statement_timeout_s: Seconds that a statement may take on PostgreSQL; 0 for the usual.

    Raises:
        StoreError: The database did not answer, or refused a statement.
    """
    is_set = is_snapshot and engine.dialect.name == "postgresql"
    with translated_errors(), engine.connect() as connection:
        if is_set:
            connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            if statement_timeout_s and engine.dialect.name == "postgresql":
                milliseconds = round(statement_timeout_s * 1_000)
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {milliseconds}")
            yield connection


class StoppableReads:
    """Transactions that read for long; another thread can have the database stop them.

    Args:
        timeout_s: Seconds that a statement may take on PostgreSQL; 0 for the usual.
    """

    def __init__(self, engine: Engine, timeout_s: float) -> None:
        self._engine, self._timeout_s = engine, timeout_s
        self._running: set[Any] = set()  # the driver's connections
        self._is_stopped = False

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction that only reads.

        Raises:
            StoreError: It was stopped.
        """
        with read_transaction(self._engine, statement_timeout_s=self._timeout_s) as connection:
            driven = connection.connection.driver_connection
            self._running.add(driven)
            try:
                if self._is_stopped:
                    raise StoreError("the store is being closed")
                yield connection
            finally:
                self._running.discard(driven)

    def stop(self) -> None:
        """Stop what is being read, and let nothing be read any more."""
        self._is_stopped = True
        until = time.monotonic() + _STOP_DEADLINE_S
        while (running := tuple(self._running)) and time.monotonic() < until:
            for driven in running:  # again and again: one may be between two statements
                (driven.cancel if hasattr(driven, "cancel") else driven.interrupt)()
            time.sleep(_STOP_INTERVAL_S)


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes, committed at the end.

    On SQLite it takes the one write lock at once: a transaction that began by reading cannot
    always become a writer.

    Raises:
        StoreError: The database did not answer, or refused a statement or row; SQLite's file was
            removed meanwhile, and what was committed with it.
    """
    with translated_errors(), engine.connect().execution_options(writes=True) as connection:
        with connection.begin():
            yield connection
        check_sqlite_file(connection)  # a commit into a file that was removed is none


def delete_unused(engine: Engine, table: Table, since: float, budget: float) -> int:
    """Delete rows of a table that nobody asked for after ``since``; returns their number.

    Args:
        table: Has one key, and when each row was ``used`` last.
        budget: Seconds after which no further step begins.
    """
    (key,), used = table.primary_key.columns, table.c.used
    old = used < since
    some = select(key).where(old).order_by(used).limit(_ROWS_PER_DELETE)
    # Said twice: on PostgreSQL a row may be asked for between being found and deleted.
    step = delete(table).where(key.in_(some), old)
    until, deleted = time.monotonic() + budget, 0
    while time.monotonic() < until:
        with write_transaction(engine) as connection:
            gone = connection.execute(step).rowcount
        deleted += gone
        if not gone:
            break
    return deleted


def migrate(engine: Engine) -> None:
    """Bring the tables to the newest revision; processes that start together take turns.

    On PostgreSQL what fails leaves the revisions before it, on SQLite the tables as they were.
    Alembic is imported only where the tables are not at the newest revision yet.

    Raises:
        OperatorError: A newer version has migrated them, or they are from before the first
            release.
    """
    current, revisions = revision(engine), known_revisions()
    if current == revisions[-1]:
        return
    if current is not None and current < revisions[0]:
        raise OperatorError(
            f"The database's tables are at revision {current}, from before the first release, and"
            f" this version of Thriftgate begins with revision {revisions[0]}. Start a checkout of"
            " 2026-11-28 once, which brings them there, then this version."
        )
    if current is not None and current not in revisions:
        raise OperatorError(
            f"The database's tables are at revision {current}, and this version of Thriftgate knows"
            f" revisions up to {revisions[-1]}. Run the newer version, or restore a backup from"
            " before its first start."
        )
    from alembic import command  # noqa: PLC0415 - it takes a quarter of a second to import

    with _migration_config(engine) as config:
        command.upgrade(config, "head")


def revision(engine: Engine) -> str | None:
    """The revision the tables are at; None where there are none yet."""
    with read_transaction(engine) as connection:
        if not inspect(connection).has_table(_VERSION.name):
            return None
        return connection.execute(select(_VERSION.c.version_num)).scalar()


def known_revisions() -> list[str]:
    """The revisions of all migrations, oldest first, as their files' names begin: ``0025_….py``."""
    files = (_scripts() / "versions").glob("[0-9]*.py")
    return sorted(file.name.partition("_")[0] for file in files)


@contextmanager
def _migration_config(engine: Engine) -> "Iterator[Config]":
    """Alembic's settings, with a connection as ``migrations.env`` takes it."""
    config = _alembic()
    if engine.dialect.name == "sqlite":
        with write_transaction(engine) as connection:
            config.attributes["connection"] = connection
            yield config
        return
    with translated_errors(), engine.connect() as connection:
        config.attributes["connection"] = connection
        try:
            yield config
        finally:
            connection.invalidate()  # its turn and its limits go with it, and to nobody else


def address(url: str | URL) -> str:
    """A database's URL without its passwords, for people to read."""
    return make_url(url).difference_update_query(["password", "sslpassword"]).render_as_string()


def _normal(url: str) -> URL:
    try:
        where = make_url(url)
    except ArgumentError:
        raise ValueError(
            "it is no URL: give sqlite:///path/to/file or postgresql://user:password@host/database"
        ) from None
    if where.drivername in {"postgres", "postgresql", "postgresql+psycopg"}:
        if find_spec("psycopg") is None:
            raise ValueError(f"PostgreSQL needs a package: {how_to_install('postgres')}")
        return where.set(drivername="postgresql+psycopg")
    if where.drivername == "sqlite" and where.database and where.database != ":memory:":
        return where
    raise ValueError(
        f"cannot keep a ledger at {address(where)}: "
        "give sqlite:///path/to/file or postgresql://user:password@host/database"
    )


def _alembic() -> "Config":
    """Alembic's settings; the scripts lie in the package ``migrations``, which knows this one."""
    from alembic.config import Config  # noqa: PLC0415 - as in `migrate`

    config = Config()
    config.set_main_option("script_location", str(_scripts()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _scripts() -> Path:
    """The folder of the package ``migrations``."""
    spec = find_spec("migrations")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package `migrations` is not installed")
    return Path(spec.origin).parent
