from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert, select

from proxy.store.errors import StoreError
from proxy.store.sql import schema
from proxy.store.sql.database import (
    open_database,
    open_reader,
    read_transaction,
    write_transaction,
)
from tests.fakes.databases import migrated_sqlite


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ledger" / "thriftgate.db"
    migrated_sqlite(path)
    return path


@pytest.fixture
def engine(file: Path) -> Iterator[Engine]:
    engine = open_database(f"sqlite:///{file}")
    write(engine, "first")
    yield engine
    engine.dispose()


def write(engine: Engine, name: str) -> None:
    with write_transaction(engine) as connection:
        connection.execute(insert(schema.meta).values(name=name, secret=b""))


def names(engine: Engine) -> list[str]:
    with read_transaction(engine) as connection:
        return list(connection.execute(select(schema.meta.c.name)).scalars())


def remove(file: Path) -> None:
    for path in file.parent.iterdir():
        path.unlink()


def test_a_removed_file_is_neither_read_nor_written_nor_made_again(
    engine: Engine, file: Path
) -> None:
    remove(file)
    with pytest.raises(StoreError, match="the database's file was removed"):
        names(engine)
    with pytest.raises(StoreError, match="the database's file was removed"):
        write(engine, "second")

    assert list(file.parent.iterdir()) == []


def test_a_commit_into_a_file_that_is_removed_meanwhile_fails(engine: Engine, file: Path) -> None:
    def write_and_remove() -> None:
        with write_transaction(engine) as connection:
            connection.execute(insert(schema.meta).values(name="second", secret=b""))
            remove(file)

    with pytest.raises(StoreError, match="the database's file was removed"):
        write_and_remove()


def test_a_file_that_is_put_back_is_used(engine: Engine, file: Path) -> None:
    remove(file)
    with pytest.raises(StoreError):
        names(engine)
    migrated_sqlite(file)
    write(engine, "second")

    assert {"first", "second"} & set(names(engine)) == {"second"}


def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    reader = open_reader(f"sqlite:///{tmp_path / 'none.db'}")
    with pytest.raises(StoreError, match="the database's file was removed"):
        names(reader)

    assert list(tmp_path.iterdir()) == []
    reader.dispose()
