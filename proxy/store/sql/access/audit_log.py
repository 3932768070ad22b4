"""The audit log: changes by people and by ``auto``, each in the transaction that makes it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Engine, RowMapping, Select, and_, insert, select

from dashboards.views.access import AuditEntryView
from proxy.store.sql.access.access_tables import audit_log
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import record_of

#: The author of changes that no person made, such as the first team at the first start.
GATEWAY: Final = "thriftgate"
#: Random hex digits of an entry's id, behind its time in milliseconds.
_RANDOM_BYTES: Final = 8
_MAX_TEXT_CHARS: Final = 300

Facts = Mapping[str, Any]
"""Values that changed, by name, as JSON has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedChange:
    """A change that is to be written down.

    Attributes:
        who: Name of the person, or of their account where a command ran.
        action: Words for the change, such as ``create key``.
        team: Id of the team it is about; None for none.
        before: Values before it; None where there was nothing.
        after: Values after it; None where nothing is left.
    """

    who: str
    action: str
    subject: str
    team: str | None = None
    before: Facts | None = None
    after: Facts | None = None


def record_change(connection: Connection, change: AuditedChange, now: float) -> None:
    """Write a change down in the transaction that makes it, so that neither is kept alone."""
    values = {
        "id": f"{_first_id(now)}{token_hex(_RANDOM_BYTES)}",
        "at": now,
        "who": (change.who or "?")[:_MAX_TEXT_CHARS],
        "action": change.action,
        "subject": change.subject[:_MAX_TEXT_CHARS],
        "team": change.team,
        "before": _json(change.before),
        "after": _json(change.after),
    }
    connection.execute(insert(audit_log).values(values))


class AuditLog:
    """The log in one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def append(self, change: AuditedChange, now: float) -> None:
        """Write down a change that no transaction of the database makes, such as a reload."""
        with write_transaction(self._engine) as connection:
            record_change(connection, change, now)

    def entries(
        self, limit: int, *, before: str = "", who: str = "", team: str = ""
    ) -> Sequence[AuditEntryView]:
        """Changes, the newest first.

        Args:
            before: Id of an entry; only older ones are wanted. "" for the newest.
            who: Only changes of this person; "" for everybody's.
            team: Only changes about the team with this id; "" for all.
        """
        query = select(audit_log).order_by(audit_log.c.id.desc()).limit(limit)
        if before:
            query = query.where(audit_log.c.id < before)
        if who:
            query = query.where(audit_log.c.who == who)
        if team:
            query = query.where(audit_log.c.team == team)
        return self._entries(query)

    def changes_between(
        self, start: float, end: float, actions: Collection[str], most: int
    ) -> Sequence[AuditEntryView]:
        """Changes of some kinds in a period, the newest first.

        Args:
            end: The same; what happened then is not in it.
        """
        table = audit_log.c
        is_in = and_(table.id >= _first_id(start), table.id < _first_id(end))
        query = (
            select(audit_log)
            .where(is_in, table.action.in_(sorted(actions)))
            .order_by(table.id.desc())
            .limit(most)
        )
        return self._entries(query)

    def _entries(self, query: Select[Any]) -> Sequence[AuditEntryView]:
        with read_transaction(self._engine) as connection:
            return [_entry(row) for row in connection.execute(query).mappings()]


def text_before_last_change(engine: Engine, subject: str, actions: Collection[str]) -> str | None:
    """A subject before the last of these changes, as JSON; None where there was nothing.

    Raises:
        ValueError: There was no such change.
    """
    table = audit_log.c
    query = (
        select(table.before)
        .where(table.subject == subject, table.action.in_(sorted(actions)))
        .order_by(table.id.desc())
        .limit(1)
    )
    with read_transaction(engine) as connection:
        row = connection.execute(query).first()
    if row is None:
        raise ValueError("no change of it is known")
    before: str | None = row.before
    return before


def _first_id(moment: float) -> str:
    """The least id of an entry at a moment, in seconds since the epoch."""
    return f"chg_{max(int(moment * 1000), 0):012x}"


def _entry(row: RowMapping) -> AuditEntryView:
    changed = {name: _facts(row[name]) for name in ("before", "after")}
    return record_of({**row, **changed}, AuditEntryView)


def _json(facts: Facts | None) -> str | None:
    return None if facts is None else msgspec.json.encode(facts).decode()


def _facts(text: str | None) -> Facts | None:
    return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
