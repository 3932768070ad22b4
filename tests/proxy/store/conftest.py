"""Databases of both kinds, and keys of one's own in Redis."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
import redis
from sqlalchemy import Engine

from proxy.store.sql.database import open_database
from tests.fakes.databases import MigratedSchema, migrated_sqlite
from tests.fakes.postgres import SERVER, schema
from tests.fakes.redis_keys import SERVER as REDIS
from tests.fakes.redis_keys import prefix


@pytest.fixture(scope="session")
def migrated_schema() -> Iterator[MigratedSchema]:
    """A migrated schema that the tests of a process use in turn."""
    made = MigratedSchema()
    yield made
    made.drop()


@pytest.fixture
def migrated_postgres(migrated_schema: MigratedSchema) -> str:
    """The URL of a migrated schema without rows on the PostgreSQL server."""
    try:
        return migrated_schema.empty_url()
    except psycopg.OperationalError as error:
        pytest.skip(_reason_to_skip(error))


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of a schema of its own, without tables, on the PostgreSQL server."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(schema())
        except psycopg.OperationalError as error:
            pytest.skip(_reason_to_skip(error))
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger/thriftgate.db"
    return str(request.getfixturevalue("postgres"))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a migrated database without rows, of each kind in turn."""
    if request.param == "sqlite":
        return migrated_sqlite(tmp_path / "ledger" / "thriftgate.db")
    return str(request.getfixturevalue("migrated_postgres"))


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """A migrated database."""
    engine = open_database(url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def module_schema() -> Iterator[MigratedSchema]:
    """A migrated schema for what the tests of a module share, and only read."""
    made = MigratedSchema()
    yield made
    made.drop()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def new_shared_url(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    module_schema: MigratedSchema,
) -> Callable[[], str]:
    """The URL of a migrated database without rows, of each kind in turn; for a module's tests."""
    if request.param == "sqlite":
        return lambda: migrated_sqlite(tmp_path_factory.mktemp("ledger") / "thriftgate.db")

    def empty_schema_url() -> str:
        try:
            return module_schema.empty_url()
        except psycopg.OperationalError as error:
            pytest.skip(_reason_to_skip(error))

    return empty_schema_url


@pytest.fixture
def sqlite_engine(tmp_path: Path) -> Iterator[Engine]:
    """A migrated SQLite database."""
    engine = open_database(migrated_sqlite(tmp_path / "only.db"))
    yield engine
    engine.dispose()


def _reason_to_skip(error: psycopg.OperationalError) -> str:
    return f"no PostgreSQL at THRIFTGATE_TEST_POSTGRES ({SERVER}): {error}"


@pytest.fixture
def redis_prefix() -> Iterator[str]:
    """The prefix of this test's keys on the Redis server."""
    with ExitStack() as stack:
        try:
            name = stack.enter_context(prefix())
        except redis.RedisError as error:
            pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({REDIS}): {error}")
        yield name
