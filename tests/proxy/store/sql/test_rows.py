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

PLAN: dict[str, Any] = {"conversation": "a", "plan": "null", "used": 1_790_000_000.25}


@dataclass(frozen=True)
class PlanRow:
    conversation: str
    used: float


def put(engine: Engine, row: dict[str, object], on_conflict: str = "DO NOTHING") -> None:
    with write_transaction(engine) as connection:
        connection.execute(upsert(schema.plans, on_conflict), row)


def test_a_row_whose_key_is_there_is_left_or_replaced_in_part(engine: Engine) -> None:
    plans = schema.plans.c
    put(engine, PLAN)
    put(engine, {**PLAN, "used": 7.0})
    used = read_value(engine, select(plans.used))
    put(engine, {**PLAN, "plan": "[]", "used": 8.0}, update_clause("used"))

    assert used == PLAN["used"]
    assert read_value(engine, select(plans.used)) == 8.0
    assert read_value(engine, select(plans.plan)) == "null"


def test_a_record_has_the_columns_of_its_fields_and_no_others(engine: Engine) -> None:
    put(engine, PLAN)

    assert read_records(engine, select(schema.plans), PlanRow) == [PlanRow("a", PLAN["used"])]
    name = schema.plans.c.conversation
    assert read_value(engine, select(name).where(name == "b")) is None


def test_changes_are_counted_by_fact(engine: Engine) -> None:
    with write_transaction(engine) as connection:
        count_change(connection, KEY_CHANGES)
        count_change(connection, KEY_CHANGES)

    assert [read_value(engine, change_count(fact)) for fact in (KEY_CHANGES, LAYOUT_CHANGES)] == [
        2,
        0,
    ]
