"""Fresh databases of both kinds, and keys of one's own in Redis."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest
import redis
from sqlalchemy import Engine

from proxy.store.sql.database import migrate, open_database
from tests.fakes.redis_keys import SERVER as REDIS
from tests.fakes.redis_keys import prefix

_DEFAULT = "postgresql://postgres@127.0.0.1:5432/test"
_SERVER = os.environ.get("THRIFTGATE_TEST_POSTGRES", _DEFAULT)  # noqa: TID251 - a test's own setting


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of an empty schema of its own on the PostgreSQL server."""
    name = f"thriftgate_{token_hex(6)}"
    try:
        connection = psycopg.connect(_SERVER, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at THRIFTGATE_TEST_POSTGRES ({_SERVER}): {error}")
    with connection:
        connection.execute(f"CREATE SCHEMA {name}")
        try:
            yield f"{_SERVER}?options=-csearch_path%3D{name}"
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger/thriftgate.db"
    server: str = request.getfixturevalue("postgres")
    return server


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """A migrated database."""
    engine = open_database(url)
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def migrated_sqlite(tmp_path: Path) -> Iterator[Engine]:
    """A migrated SQLite database."""
    engine = open_database(f"sqlite:///{tmp_path}/only.db")
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def redis_prefix() -> Iterator[str]:
    """What the keys of this test begin with on the Redis server."""
    with ExitStack() as stack:
        try:
            name = stack.enter_context(prefix())
        except redis.RedisError as error:
            pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({REDIS}): {error}")
        yield name
