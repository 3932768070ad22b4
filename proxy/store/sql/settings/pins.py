"""Pins of objectives: a level that people set for a while."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Engine, delete, select, update

from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import (
    AuditedChange,
    check_last_change,
    record_change,
)
from proxy.store.sql.database import write_transaction
from proxy.store.sql.rows import read_records, record_of, update_clause, upsert

_SET: Final = upsert(schema.pins, update_clause("level", "until", "why", "who"))
PIN_ACTION: Final = "pin objective"
RELEASE_ACTION: Final = "release objective"
PIN_CHANGES: Final = (PIN_ACTION, RELEASE_ACTION)
#: Pins that are told of.
_MAX_PINS: Final = 1_000
#: Seconds a pin is remembered after its end, for those who look at what happened.
_RETENTION_S: Final = 90 * 86_400.0


class PinRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pin as it is kept.

    Attributes:
        until: End of the pin, in seconds since the epoch.
        why: In the words of who set it.
        who: Name of the person; "" where it was not given.
    """

    objective: str
    level: int
    until: float
    why: str
    made: float
    who: str = ""


class Pins:
    """The pins in the database; one or none of an objective's holds, the others have ended."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def set(self, pin: PinRow, seen: str | None = None) -> None:
        """Pin an objective; an earlier pin of it ends.

        Args:
            seen: Id of the last pin or release of it that the author saw, "" for none; None to
                pin it anyhow.

        Raises:
            CallerError: The last is another.
        """
        table = schema.pins
        with write_transaction(self._engine) as connection:
            check_last_change(connection, seen, pin.objective, PIN_CHANGES)
            connection.execute(delete(table).where(table.c.until < pin.made - _RETENTION_S))
            before = _current_facts(connection, pin.objective, pin.made)
            _end(connection, pin.objective, pin.made)
            connection.execute(_SET, msgspec.structs.asdict(pin))
            change = AuditedChange(
                who=pin.who,
                action=PIN_ACTION,
                subject=pin.objective,
                before=before,
                after=_facts(pin),
            )
            record_change(connection, change, pin.made)

    def release(self, objective: str, now: float, who: str = "", seen: str | None = None) -> bool:
        """End the pin of an objective as ``set`` sets it; False if there was none."""
        with write_transaction(self._engine) as connection:
            check_last_change(connection, seen, objective, PIN_CHANGES)
            before = _current_facts(connection, objective, now)
            if not _end(connection, objective, now):
                return False
            change = AuditedChange(who=who, action=RELEASE_ACTION, subject=objective, before=before)
            record_change(connection, change, now)
        return True

    def current_pins(self, now: float) -> Mapping[str, PinRow]:
        """The pins that have not ended, by objective; of several of one, the last."""
        table = schema.pins
        query = select(table).where(table.c.until > now).order_by(table.c.made).limit(_MAX_PINS)
        return {pin.objective: pin for pin in read_records(self._engine, query, PinRow)}

    def last_pins(self, most: int) -> list[PinRow]:
        """The pins that were set last, the newest first; those that ended are among them."""
        table = schema.pins
        query = select(table).order_by(table.c.made.desc(), table.c.objective).limit(most)
        return read_records(self._engine, query, PinRow)


def _facts(pin: PinRow) -> dict[str, Any]:
    return {"level": pin.level, "until": pin.until, "why": pin.why}


def _current_facts(connection: Connection, objective: str, now: float) -> dict[str, Any] | None:
    """The pin of an objective as the audit log has it; None for none."""
    table = schema.pins
    query = (
        select(table)
        .where(table.c.objective == objective, table.c.until > now)
        .order_by(table.c.made.desc())
        .limit(1)
    )
    row = connection.execute(query).mappings().first()
    return None if row is None else _facts(record_of(row, PinRow))


def _end(connection: Connection, objective: str, now: float) -> int:
    """End what is pinned of an objective; how many pins that were."""
    table = schema.pins
    is_current = (table.c.objective == objective) & (table.c.until > now)
    return connection.execute(update(table).where(is_current).values(until=now)).rowcount
