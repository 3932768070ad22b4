import sqlite3

import psycopg
import pytest
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    InternalError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)

from proxy.store.errors import StoreError, translated_errors


def failure(kind: type[DBAPIError], cause: Exception) -> SQLAlchemyError:
    return kind("SELECT 1", {}, cause)


@pytest.mark.parametrize(
    ("error", "is_outage"),
    [
        (failure(OperationalError, psycopg.OperationalError("connection refused")), True),
        (failure(InternalError, psycopg.errors.ReadOnlySqlTransaction("a standby")), True),
        (failure(InternalError, psycopg.errors.InternalError_("corrupt")), False),
        (failure(ProgrammingError, psycopg.errors.InsufficientPrivilege("denied")), False),
        (failure(OperationalError, sqlite3.OperationalError("unable to open")), False),
        (ArgumentError("no URL"), False),
    ],
)
def test_translated_error_is_an_outage_where_it_ends_once_the_server_is_back(
    error: SQLAlchemyError,
    is_outage: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    with pytest.raises(StoreError) as caught, translated_errors():
        raise error
    assert caught.value.is_outage is is_outage


@pytest.mark.parametrize(
    "error",
    [
        failure(IntegrityError, sqlite3.IntegrityError("UNIQUE constraint failed: teams.name")),
        failure(DataError, psycopg.errors.NumericValueOutOfRange("out of range")),
        failure(OperationalError, psycopg.errors.ProgramLimitExceeded("index row size")),
    ],
)
def test_row_that_the_database_never_takes_is_refused_with_the_drivers_reason(
    error: DBAPIError,
) -> None:
    with pytest.raises(StoreError, match=str(error.orig)) as caught, translated_errors():
        raise error
    assert caught.value.is_row_refused
