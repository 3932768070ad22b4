"""Rows of any table: inserted or updated in one statement, read as records, changes counted."""

from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import (
    Connection,
    Engine,
    RowMapping,
    Select,
    Table,
    TextClause,
    bindparam,
    select,
    text,
    update,
)

from proxy.store.sql.database import read_transaction
from proxy.store.sql.schema import meta

T = TypeVar("T")

KEY_CHANGES: Final = "key changes"
"""The fact that counts changes to keys and teams, for their caches; the others likewise."""
LAYOUT_CHANGES: Final = "layout changes"
COMPACTION_CHANGES: Final = "compaction changes"


def upsert(table: Table, on_conflict: str = "DO NOTHING") -> TextClause:
    """The statement that inserts a row of a table; its values are the table's columns by name.

    Args:
        on_conflict: SQL for a row whose key is there already.
    """
    names = [column.name for column in table.columns]
    key = ", ".join(column.name for column in table.primary_key)
    statement = text(
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES (:{', :'.join(names)})"  # noqa: S608 - made of the schema's own names
        f" ON CONFLICT ({key}) {on_conflict}"
    )
    return statement.bindparams(
        *(bindparam(field.name, type_=field.type) for field in table.columns)
    )


def update_clause(*names: str) -> str:
    """SQL for ``upsert`` that replaces these columns' values by those of the new row."""
    return "DO UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in names)


def record_of(row: RowMapping | dict[str, Any], kind: type[T]) -> T:
    """The record in a row whose columns are named as its fields are; others are left out."""
    named = {str(name): value for name, value in row.items()}  # names are of a class of their own
    return msgspec.convert(named, kind, strict=False)


def read_records(engine: Engine, query: Select[Any], kind: type[T]) -> list[T]:
    """The records in the rows of a query."""
    with read_transaction(engine) as connection:
        return [record_of(row, kind) for row in connection.execute(query).mappings()]


def read_value(engine: Engine, query: Select[Any]) -> Any:  # noqa: ANN401 - of any column
    """The first column of a query's one row; None where it has no row."""
    with read_transaction(engine) as connection:
        return connection.execute(query).scalar()


def change_count(fact: str) -> Select[Any]:
    """The query for how often something has changed."""
    return select(meta.c.number).where(meta.c.name == fact)


def count_change(connection: Connection, fact: str) -> None:
    """Count a change. The count's row is locked until the commit, so no number comes twice."""
    count = update(meta).where(meta.c.name == fact).values(number=meta.c.number + 1)
    connection.execute(count)
