"""Connections to SQLite's file, and their behaviour once the file was removed.

SQLite goes on writing to a removed file, and loses everything with the last connection. So each
connection remembers the file that it opened, and is closed when that is no longer at its path. No
new file is created in its place; one that comes back later, as from a backup, is used.
"""

import time
from contextlib import suppress
from pathlib import Path
from sqlite3 import SQLITE_BUSY, register_adapter
from sqlite3 import Connection as SqliteConnection
from sqlite3 import OperationalError as SqliteError
from typing import Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import InvalidatePoolError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

#: Seconds a process waits for another one that holds SQLite's file.
_SQLITE_TIMEOUT_S: Final = 10.0
#: Seconds between two attempts to switch a new file to write-ahead logging.
_SQLITE_RETRY_S: Final = 0.02
_SETTINGS: Final = (
    f"PRAGMA busy_timeout = {_SQLITE_TIMEOUT_S * 1000:.0f}",
    # A segment of the journal is deleted once its receipts are committed, so a commit must
    # outlive a power cut; in WAL mode NORMAL would not promise that.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)
#: Settings of connections that only read, beside the others.
_READER_SETTINGS: Final = ("PRAGMA query_only = ON",)
#: Name under which a connection has its file's device and inode.
_IDENTITY: Final = "file"


def prepare_sqlite(engine: Engine, *, only_reads: bool = False) -> Engine:
    """The engine, whose connections begin as they should; the file's folder is made.

    Args:
        only_reads: True if its connections cannot write, and make no file.
    """
    file = Path(engine.url.database or "")
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    register_adapter(type(None), _as_null)
    settings = (*_SETTINGS, *_READER_SETTINGS) if only_reads else _SETTINGS
    _follow_file(engine, file, must_exist=only_reads)

    @event.listens_for(engine, "connect", insert=True)
    def prepare(connection: SqliteConnection, _record: ConnectionPoolEntry) -> None:
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


def check_sqlite_file(connection: Connection) -> None:
    """Check that the connection's file, if it is SQLite's, is still at its path.

    Raises:
        OperationalError: It was removed.
    """
    opened = connection.info.get(_IDENTITY)
    if opened is None:
        return
    file = Path(connection.engine.url.database or "")
    if opened != _identity(file):
        raise OperationalError(None, None, SqliteError(_removal_text(file)))


def _follow_file(engine: Engine, file: Path, *, must_exist: bool) -> None:
    """Have connections given up once their file is not at its path, and no other file made."""
    seen = must_exist

    @event.listens_for(engine, "do_connect")
    def refuse(*_: object) -> None:
        if seen and _identity(file) is None:
            raise SqliteError(_removal_text(file))

    @event.listens_for(engine, "connect")
    def remember(_connection: SqliteConnection, record: ConnectionPoolEntry) -> None:
        nonlocal seen
        seen, record.info[_IDENTITY] = True, _identity(file)

    @event.listens_for(engine, "checkout")
    def check(_connection: SqliteConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
        if record.info.get(_IDENTITY) != _identity(file):
            raise InvalidatePoolError


def _removal_text(file: Path) -> str:
    """An error's text, for the gateway's operator."""
    return (
        f"the database's file was removed while it was used: put {file} back from a backup, or"
        " restart for an empty one"
    )


def _identity(file: Path) -> tuple[int, int] | None:
    """Device and inode of the file at this path; None where there is none."""
    try:
        there = file.stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


def _as_null(_none: None) -> None:
    """None as SQLite stores it, which is NULL without an adapter too, but slower.

    Before Python 3.12 the driver looks for an adapter of each None among the attributes of two
    types, and formats the errors of both: two thirds of what the insert of a receipt takes.
    """


def _close_to_others(file: Path) -> None:
    """Let nobody else read what the ledger holds; its log and index are made with its own mode."""
    for path in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
        with suppress(OSError):  # it is not there, or not ours to change
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)


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
