"""Connections of pages: they only read, and are apart from those that calls need."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, delete, insert, select
from sqlalchemy.pool import QueuePool

from proxy.store.errors import StoreError
from proxy.store.sql import schema
from proxy.store.sql.database import (
    open_database,
    open_reader,
    read_transaction,
    write_transaction,
)


@contextmanager
def closing_engines(*engines: Engine) -> Iterator[tuple[Engine, ...]]:
    """The engines, disposed of at the end."""
    try:
        yield engines
    finally:
        for engine in engines:
            engine.dispose()


def test_a_reader_sees_what_is_committed_and_can_write_nothing(url: str) -> None:
    with closing_engines(open_database(url), open_reader(url)) as (writer, reader):
        with write_transaction(writer) as connection:
            connection.execute(insert(schema.plans).values(conversation="a", plan="[]", used=1))
        with read_transaction(reader, is_snapshot=True) as connection:
            assert connection.execute(select(schema.plans.c.conversation)).scalars().all() == ["a"]
        with pytest.raises(StoreError), write_transaction(reader) as connection:
            connection.execute(delete(schema.plans))
        with read_transaction(writer) as connection:
            assert connection.execute(select(schema.plans.c.conversation)).scalars().all() == ["a"]


def test_all_readers_that_are_busy_leave_the_connections_of_calls_alone(url: str) -> None:
    with closing_engines(open_database(url), open_reader(url)) as (writer, reader):
        with read_transaction(reader), read_transaction(reader):
            assert isinstance(reader.pool, QueuePool)
            assert reader.pool.checkedout() == reader.pool.size() == 2
            with write_transaction(writer) as connection:
                connection.execute(insert(schema.plans).values(conversation="b", plan="[]", used=1))
        with read_transaction(writer) as connection:
            assert connection.execute(select(schema.plans.c.conversation)).scalars().all() == ["b"]
