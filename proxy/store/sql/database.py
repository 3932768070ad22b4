"""The database: SQLite by default with nothing to start, PostgreSQL by URL."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from sqlite3 import SQLITE_BUSY, register_adapter
from sqlite3 import Connection as SqliteConnection
from sqlite3 import Error as SqliteAnyError
from sqlite3 import OperationalError as SqliteError
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    URL,
    Connection,
    Delete,
    Dialect,
    Engine,
    Table,
    Update,
    column,
    create_engine,
    delete,
    event,
    inspect,
    make_url,
    select,
    table,
)  # fmt: skip
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)

from proxy.errors import OperatorError
from proxy.store.sql.timestamps import micros

if TYPE_CHECKING:  # Alembic and psycopg are imported on use: most processes need neither
    from alembic.config import Config
    from psycopg import Connection as PostgresConnection

#: Rows that are deleted in one step.
_ROWS_PER_DELETE: Final = 2_000

#: Seconds a process waits for another one that holds SQLite's file.
_SQLITE_TIMEOUT_S: Final = 10.0
#: Seconds between two attempts to switch a new file to write-ahead logging.
_SQLITE_RETRY_S: Final = 0.02
_SQLITE = (
    f"PRAGMA busy_timeout = {_SQLITE_TIMEOUT_S * 1000:.0f}",
    # A segment of the journal is deleted once its receipts are committed, so a commit must
    # outlive a power cut; in WAL mode NORMAL would not promise that.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)
_POSTGRES = (
    "SET statement_timeout = '30s'",
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    # Compiling a sum over days and their hours takes several times as long as summing.
    "SET jit = off",
)
#: Settings of connections that only read, for pages: they cannot write, nor keep the server busy
#: for longer than a page waits, nor occupy more than one of its cores for a question.
_SQLITE_READER = ("PRAGMA query_only = ON",)
_POSTGRES_READER = (
    "SET default_transaction_read_only = on",
    "SET statement_timeout = '5s'",
    "SET max_parallel_workers_per_gather = 0",
)
#: Connections of pages: as many as ask at once.
_READERS: Final = 2
#: Table in which Alembic keeps the revision of the tables.
_VERSION: Final = table("alembic_version", column("version_num"))
#: Error code of a standby that is not promoted yet.
#: Source: PostgreSQL, appendix A, class 25 (2026-11).
_READ_ONLY: Final = "25006"
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

    Attributes:
        is_open: True if connections are made.
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


def is_outage(error: SQLAlchemyError) -> bool:
    """True if the same may succeed once the server is back; never for SQLite, which has none."""
    if not isinstance(error, DBAPIError) or isinstance(error.orig, SqliteAnyError):
        return False
    is_read_only = getattr(error.orig, "sqlstate", None) == _READ_ONLY
    is_away = isinstance(error, OperationalError | InterfaceError)
    return is_away or is_read_only or error.connection_invalidated


def reason(error: SQLAlchemyError) -> str:
    """The first line of what the database or its driver says; it holds no password."""
    said = error.orig if isinstance(error, DBAPIError) else error
    return next(iter(str(said).splitlines()), type(said).__name__)


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
        with engine.connect():
            return ""
    except SQLAlchemyError as error:
        return reason(error)
    finally:
        engine.dispose()


def open_database(url: str) -> Engine:
    """An engine for the database at ``url``; SQLite's folder is made, nothing is connected yet.

    Raises:
        ValueError: It is neither a SQLite file nor PostgreSQL.
    """
    where = _normal(url)
    if where.get_backend_name() == "sqlite":
        return _sqlite(create_engine(where), _SQLITE)
    engine = create_engine(where, pool_pre_ping=True, connect_args=_POSTGRES_SOCKET)
    return _postgres(engine, _POSTGRES)


def open_reader(url: str) -> Engine:
    """An engine with few connections of its own that only read, for questions that may be slow.

    Nothing is connected yet, and the tables are there before something is.

    Raises:
        ValueError: As ``open_database``.
    """
    where, size = _normal(url), {"pool_size": _READERS, "max_overflow": 0}
    if where.get_backend_name() == "sqlite":
        return _sqlite(create_engine(where, **size), (*_SQLITE, *_SQLITE_READER))
    engine = create_engine(where, pool_pre_ping=True, connect_args=_POSTGRES_SOCKET, **size)
    return _postgres(engine, (*_POSTGRES, *_POSTGRES_READER))


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
def read_transaction(engine: Engine, *, is_snapshot: bool = False) -> Iterator[Connection]:
    """A transaction that only reads; as a snapshot, all its statements see the same rows.

    On SQLite every transaction is one.
    """
    is_set = is_snapshot and engine.dialect.name == "postgresql"
    with engine.connect() as connection:
        if is_set:
            connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes, committed at the end.

    On SQLite it takes the one write lock at once: a transaction that began by reading cannot
    always become a writer.
    """
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


def count_changed_rows(connection: Connection, statement: Delete | Update) -> int:
    """Number of rows the statement changed or deleted; it is executed once."""
    return connection.execute(statement).rowcount


def delete_unused(engine: Engine, table: Table, since: float, budget: float) -> int:
    """Delete rows of a table that nobody asked for after ``since``; returns their number.

    Args:
        engine: The database.
        table: Has one key, and when each row was ``used`` last, in microseconds.
        since: Seconds since the epoch.
        budget: Seconds after which no further step begins.
    """
    (key,), used = table.primary_key.columns, table.c.used
    old = used < micros(since)
    some = select(key).where(old).order_by(used).limit(_ROWS_PER_DELETE)
    # Said twice: on PostgreSQL a row may be asked for between being found and deleted.
    step = delete(table).where(key.in_(some), old)
    until, deleted = time.monotonic() + budget, 0
    while time.monotonic() < until:
        with write_transaction(engine) as connection:
            gone = count_changed_rows(connection, step)
        deleted += gone
        if not gone:
            break
    return deleted


def migrate(engine: Engine) -> None:
    """Bring the tables to the newest revision; processes that start together take turns.

    On PostgreSQL what fails leaves the revisions before it, on SQLite the tables as they were.
    Alembic is imported only where the tables are not at the newest revision yet.

    Raises:
        OperatorError: A newer version has migrated them.
    """
    found, known = revision(engine), _revisions()
    if found == known[-1]:
        return
    if found is not None and found not in known:
        raise OperatorError(
            f"The database's tables are at revision {found}, and this version of Thriftgate knows"
            f" revisions up to {known[-1]}. Run the newer version, or restore a backup from before"
            " its first start."
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


def newest_revision() -> str:
    """The revision of the newest migration, as its file's name begins: ``0008_….py``."""
    return _revisions()[-1]


def _revisions() -> list[str]:
    """All revisions, oldest first."""
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
    with engine.connect() as connection:
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
        return where.set(drivername="postgresql+psycopg")
    if where.drivername == "sqlite" and where.database and where.database != ":memory:":
        return where
    raise ValueError(
        f"cannot keep a ledger at {address(where)}: "
        "give sqlite:///path/to/file or postgresql://user:password@host/database"
    )


def _sqlite(engine: Engine, settings: Sequence[str]) -> Engine:
    """The engine, whose connections begin with these settings."""
    file = Path(engine.url.database or "")
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    register_adapter(type(None), _as_null)

    @event.listens_for(engine, "connect")
    def prepare(connection: SqliteConnection, _record: object) -> None:
        _close_to_others(file)
        connection.isolation_level = None  # the driver begins no transactions; `begin` below does
        _write_ahead(connection)
        for setting in settings:
            connection.execute(setting)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _as_null(_none: None) -> None:
    """None as SQLite stores it, which is NULL without an adapter too, but slower.

    Before Python 3.12 the driver looks for an adapter of each None among the attributes of two
    types, and formats the errors of both: two thirds of what the insert of a receipt takes.
    """


def _close_to_others(file: Path) -> None:
    """Let nobody else read what the ledger holds; its log and index are made with its own mode."""
    for each in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
        with suppress(OSError):  # it is not there, or not ours to change
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)


def _write_ahead(connection: SqliteConnection) -> None:
    """Switch the file to write-ahead logging, which SQLite refuses at once while another writes.

    Its busy timeout does not hold here: who reads and wants to write may not wait for a writer
    (https://www.sqlite.org/c3ref/busy_handler.html), so processes that start together on a new
    file would fail.
    """
    until = time.monotonic() + _SQLITE_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except SqliteError as error:
            if error.sqlite_errorcode & 0xFF != SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_SQLITE_RETRY_S)
        else:
            return


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
