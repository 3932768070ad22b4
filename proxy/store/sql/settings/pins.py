"""Pins of objectives: a level that people set for a while."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Engine, delete, select, update

from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import (
    AuditedChange,
    record_change,
    text_before_last_change,
)
from proxy.store.sql.database import write_transaction
from proxy.store.sql.rows import read_records, record_of, update_clause, upsert

_SET: Final = upsert(schema.pins, update_clause("level", "until", "why", "who"))
PIN_ACTION: Final = "pin objective"
RELEASE_ACTION: Final = "release objective"
#: Pins that are told of.
_MAX_PINS: Final = 1_000
#: Seconds a pin is remembered after its end, for those who look at what happened.
_RETENTION_S: Final = 90 * 86_400.0


class _PinFacts(msgspec.Struct, frozen=True):
    """A pin as the audit log has it."""

    level: int
    until: float
    why: str


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

    def set(self, pin: PinRow) -> None:
        """Pin an objective; an earlier pin of it ends."""
        table = schema.pins
        with write_transaction(self._engine) as connection:
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

    def release(self, objective: str, now: float, who: str = "") -> bool:
        """Take the pin of an objective back, which ends now; False if there was none."""
        with write_transaction(self._engine) as connection:
            before = _current_facts(connection, objective, now)
            if not _end(connection, objective, now):
                return False
            change = AuditedChange(who=who, action=RELEASE_ACTION, subject=objective, before=before)
            record_change(connection, change, now)
        return True

    def undo(self, objective: str, now: float, who: str) -> bool:
        """Take the last pin or release of an objective back; False where that changes nothing.

        A pin of before whose time is over is not set again.

        Raises:
            ValueError: It was never pinned.
        """
        text = text_before_last_change(self._engine, objective, (PIN_ACTION, RELEASE_ACTION))
        before = None if text is None else msgspec.json.decode(text, type=_PinFacts)
        if before is None or before.until <= now:
            return self.release(objective, now, who)
        facts = msgspec.structs.asdict(before)
        self.set(PinRow(objective=objective, made=now, who=who, **facts))
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
