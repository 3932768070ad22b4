"""The error of the stores: no error of SQLAlchemy or of Redis leaves them."""

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Error as SqliteError
from typing import Final

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)

#: Error code of a standby that is not promoted yet.
#: Source: PostgreSQL, appendix A, class 25 (2026-11).
_READ_ONLY: Final = "25006"
#: Class of error codes for what exceeds the server's limits. Source: as above, class 54.
_PROGRAM_LIMIT_CLASS: Final = "54"


class StoreError(Exception):
    """The database or the shared counters did not answer in time, or refused what was asked.

    What was asked for may still have been done. Counters do once what is asked again under the
    same name, and a hold goes at its end.

    Args:
        reason: First line of what the database, Redis or a driver says; it holds no password.
        is_outage: True if the same may succeed once the database's server is back; never for
            SQLite, which has none.
        is_row_refused: True if the database will never take a row: a value it cannot hold, or one
            that breaks a constraint.
    """

    def __init__(
        self, reason: str, *, is_outage: bool = False, is_row_refused: bool = False
    ) -> None:
        super().__init__(reason)
        self.is_outage = is_outage
        self.is_row_refused = is_row_refused


@contextmanager
def translated_errors() -> Iterator[None]:
    """A block whose errors of SQLAlchemy become ``StoreError``.

    Raises:
        StoreError: The database did not answer, or refused a statement.
    """
    try:
        yield
    except SQLAlchemyError as error:
        raise _store_error(error) from error


def _store_error(error: SQLAlchemyError) -> StoreError:
    """The error with the first line of what the database or its driver says."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    reason = next(iter(str(cause).splitlines()), type(cause).__name__)
    state = str(getattr(cause, "sqlstate", ""))
    if isinstance(error, DataError | IntegrityError) or state.startswith(_PROGRAM_LIMIT_CLASS):
        return StoreError(reason, is_row_refused=True)
    if not isinstance(error, DBAPIError) or isinstance(cause, SqliteError):
        return StoreError(reason)
    is_away = isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated
    return StoreError(reason, is_outage=is_away or state == _READ_ONLY)
