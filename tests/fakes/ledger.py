"""What a database holds, read back whole."""

from typing import Any

from sqlalchemy import Engine, select

from proxy.records.receipt import Receipt
from proxy.store.sql import rows, schema
from proxy.store.sql.database import read_transaction


def ledger_of(engine: Engine) -> list[Receipt]:
    """All receipts in the database, in order."""
    query = select(schema.calls).order_by(schema.calls.c.call_id, schema.calls.c.attempt)
    with read_transaction(engine) as connection:
        return [rows.receipt_from_row(row) for row in connection.execute(query)]


def rollups_of(engine: Engine) -> dict[tuple[Any, ...], dict[str, int | None]]:
    """All rollups in the database, by key."""
    key = [column.name for column in schema.rollups.primary_key.columns]
    with read_transaction(engine) as connection:
        found = connection.execute(select(schema.rollups)).mappings().all()
    return {
        tuple(row[name] for name in key): {
            name: value for name, value in row.items() if name not in key
        }
        for row in found
    }
