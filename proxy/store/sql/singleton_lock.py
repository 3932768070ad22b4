"""Being the only one: a lock that one process on a database holds as long as it lives."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

#: Names the lock among the database's advisory locks, with the schema; any number of 32 bits.
_LOCK_NUMBER: Final = 743_301_924
_TAKE: Final = text("SELECT pg_try_advisory_lock(:lock, hashtext(current_schema()))")
_LEAVE: Final = text("SELECT pg_advisory_unlock(:lock, hashtext(current_schema()))")


@contextmanager
def singleton_lock(engine: Engine) -> Iterator[bool]:
    """True if no other process is in such a block on this database.

    On SQLite it is a lock on a file beside the database; on PostgreSQL an advisory lock of a
    session, which is lost with its connection.

    Raises:
        SQLAlchemyError: The database is away.
        OSError: The file beside it cannot be written.
    """
    if engine.dialect.name == "sqlite":
        with Path(f"{engine.url.database}.alone").open("ab") as file:
            yield _lock_file(file.fileno())
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        asked = {"lock": _LOCK_NUMBER}
        is_alone = connection.execute(_TAKE, asked).scalar()
        try:
            yield bool(is_alone)
        finally:
            if is_alone:
                _release(connection, asked)


def _release(connection: Connection, asked: dict[str, int]) -> None:
    """Release the lock; where the database is away, by giving up the connection that holds it."""
    try:
        connection.execute(_LEAVE, asked)
    except SQLAlchemyError:
        connection.invalidate()


def _lock_file(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
