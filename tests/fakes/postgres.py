"""A schema of a test's own on the PostgreSQL server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex

import psycopg

_DEFAULT = "postgresql://postgres@127.0.0.1:5432/test"
SERVER = os.environ.get("THRIFTGATE_TEST_POSTGRES", _DEFAULT)  # noqa: TID251 - a test's own setting


@contextmanager
def schema() -> Iterator[str]:
    """The URL of an empty schema, dropped afterwards.

    Raises:
        psycopg.OperationalError: If there is no server.
    """
    name = f"thriftgate_{token_hex(6)}"
    with psycopg.connect(SERVER, autocommit=True, connect_timeout=3) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        try:
            yield f"{SERVER}?options=-csearch_path%3D{name}"
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE")
