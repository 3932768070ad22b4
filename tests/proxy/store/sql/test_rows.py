"""Rows are upserted, counted and read as records in both databases alike."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select

from proxy.store.sql import schema
from proxy.store.sql.database import write_transaction
from proxy.store.sql.rows import (
    KEY_CHANGES,
    LAYOUT_CHANGES,
    change_count,
    count_change,
    read_records,
    read_value,
    update_clause,
    upsert,
)

NOTE: dict[str, Any] = {"key": "a", "lines": "null", "used": 1_790_000_000.25}


@dataclass(frozen=True)
class NoteRow:
    key: str
    used: float


def put(engine: Engine, row: dict[str, object], on_conflict: str = "DO NOTHING") -> None:
    with write_transaction(engine) as connection:
        connection.execute(upsert(schema.notes, on_conflict), row)


def test_a_row_whose_key_is_there_is_left_or_replaced_in_part(engine: Engine) -> None:
    notes = schema.notes.c
    put(engine, NOTE)
    put(engine, {**NOTE, "used": 7.0})
    used = read_value(engine, select(notes.used))
    put(engine, {**NOTE, "lines": "[]", "used": 8.0}, update_clause("used"))

    assert used == NOTE["used"]
    assert read_value(engine, select(notes.used)) == 8.0
    assert read_value(engine, select(notes.lines)) == "null"


def test_a_record_has_the_columns_of_its_fields_and_no_others(engine: Engine) -> None:
    put(engine, NOTE)

    assert read_records(engine, select(schema.notes), NoteRow) == [NoteRow("a", NOTE["used"])]
    assert read_value(engine, select(schema.notes.c.key).where(schema.notes.c.key == "b")) is None


def test_changes_are_counted_by_fact(engine: Engine) -> None:
    with write_transaction(engine) as connection:
        count_change(connection, KEY_CHANGES)
        count_change(connection, KEY_CHANGES)

    assert [read_value(engine, change_count(fact)) for fact in (KEY_CHANGES, LAYOUT_CHANGES)] == [
        2,
        0,
    ]
