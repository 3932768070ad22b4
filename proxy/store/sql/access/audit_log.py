"""The audit log: changes by people and by ``auto``, each in the transaction that makes it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Final
from zlib import crc32

import msgspec
from sqlalchemy import Connection, Engine, RowMapping, Select, and_, func, insert, select

from dashboards.views.access import AuditEntryView
from proxy.errors import CallerError
from proxy.store.sql.access.access_tables import audit_log
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import record_of

#: The author of changes that no person made, such as the first team at the first start.
GATEWAY: Final = "thriftgate"
#: The action of a mark that something was deployed.
DEPLOY_ACTION: Final = "deploy"
#: Random hex digits of an entry's id, behind its time in milliseconds.
_RANDOM_BYTES: Final = 8
#: Seconds that a deploy may be marked after it, and before it, by clocks that differ.
MAX_LATE_DEPLOY_S: Final = 30 * 86_400.0
MAX_EARLY_DEPLOY_S: Final = 60.0
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


def changed_meanwhile_error(change: AuditEntryView | None) -> CallerError:
    """The refusal of a change after another that its author did not see; it would be lost."""
    newer = "somebody"
    if change is not None:
        at = datetime.fromtimestamp(change.at, UTC)
        newer = f"{change.who} ({change.action} {change.subject}, {at:%Y-%m-%d %H:%M:%S} UTC)"
    return CallerError(
        f"This was changed after the page was shown, by {newer}. Nothing was done; load the page"
        " again, and then decide.",
        code="changed_meanwhile",
        status=409,
    )


def check_last_change(
    connection: Connection,
    seen: str | None,
    subject: str,
    actions: Collection[str],
    team: str | None = None,
) -> None:
    """Check, in the transaction that changes a subject, that nobody else did meanwhile.

    Args:
        seen: Id of the last of these changes that the author saw, "" for none; None where they
            would change whatever is there.
        team: Id of the team, for subjects that are unique within one alone.

    Raises:
        CallerError: The last change is another.
    """
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        lock = crc32(f"{team}:{subject}".encode())
        connection.execute(select(func.pg_advisory_xact_lock(lock)))
    if seen is None:
        return
    row = connection.execute(_last_change(subject, actions, team)).mappings().first()
    last = None if row is None else _entry(row)
    if seen != ("" if last is None else last.id):
        raise changed_meanwhile_error(last)


def record_change(connection: Connection, change: AuditedChange, now: float) -> str:
    """Write a change down in the transaction that makes it, and return its id."""
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
    return str(values["id"])


class AuditLog:
    """The log in one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def append(self, change: AuditedChange, now: float) -> None:
        """Write down a change that no transaction of the database makes, such as a reload."""
        with write_transaction(self._engine) as connection:
            record_change(connection, change, now)

    def mark_deploy(self, name: str, who: str, now: float, at: float | None = None) -> None:
        """Write down now that something was deployed.

        Args:
            at: Its time, kept as a value of the entry; None for now.

        Raises:
            ValueError: It was over 30 days ago, or is to come.
        """
        if at is not None and not now - MAX_LATE_DEPLOY_S <= at <= now + MAX_EARLY_DEPLOY_S:
            raise ValueError("A deploy is marked within 30 days after it.")
        after = None if at is None else {"at": at}
        self.append(AuditedChange(who=who, action=DEPLOY_ACTION, subject=name, after=after), now)

    def mark_version(self, version: str, now: float) -> None:
        """Mark the gateway's start as a deploy, unless an earlier start had this version."""
        starts = select(audit_log.c.id).filter_by(
            who=GATEWAY, action=DEPLOY_ACTION, subject=version
        )
        with write_transaction(self._engine) as connection:
            check_last_change(connection, None, version, ())  # one start at a time
            if connection.execute(starts.limit(1)).first() is None:
                change = AuditedChange(who=GATEWAY, action=DEPLOY_ACTION, subject=version)
                record_change(connection, change, now)

    def entries(
        self,
        limit: int,
        *,
        before: str = "",
        who: str = "",
        team: str = "",
        actions: Collection[str] | None = None,
    ) -> Sequence[AuditEntryView]:
        """Changes, the newest first.

        Args:
            before: Id of an entry; only older ones are wanted. "" for the newest.
            who: Only changes of this person; "" for everybody's.
            team: Only changes about the team with this id; "" for all.
            actions: Only changes of these kinds; None for all.
        """
        query = select(audit_log).order_by(audit_log.c.id.desc()).limit(limit)
        if before:
            query = query.where(audit_log.c.id < before)
        if who:
            query = query.where(audit_log.c.who == who)
        if team:
            query = query.where(audit_log.c.team == team)
        if actions is not None:
            query = query.where(audit_log.c.action.in_(sorted(actions)))
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

    def last_change(self, subject: str, actions: Collection[str]) -> AuditEntryView | None:
        """The last of these changes of a subject; None where there was none."""
        return next(iter(self._entries(_last_change(subject, actions))), None)

    def last_changes(self, actions: Collection[str]) -> Mapping[tuple[str, str], str]:
        """Id of the last change of each action and subject."""
        table = audit_log.c
        query = (
            select(table.action, table.subject, func.max(table.id))
            .where(table.action.in_(sorted(actions)))
            .group_by(table.action, table.subject)
        )
        with read_transaction(self._engine) as connection:
            return {(row[0], row[1]): row[2] for row in connection.execute(query)}

    def _entries(self, query: Select[Any]) -> Sequence[AuditEntryView]:
        with read_transaction(self._engine) as connection:
            return [_entry(row) for row in connection.execute(query).mappings()]


def last_id(changes: Mapping[tuple[str, str], str], subject: str, actions: Collection[str]) -> str:
    """Id of the last of some changes of a subject, of those by action and subject; "" for none."""
    return max((changes.get((action, subject), "") for action in actions), default="")


def _last_change(subject: str, actions: Collection[str], team: str | None = None) -> Select[Any]:
    """The last of these changes of a subject."""
    table = audit_log.c
    is_meant = and_(table.subject == subject[:_MAX_TEXT_CHARS], table.action.in_(sorted(actions)))
    query = select(audit_log).where(is_meant).order_by(table.id.desc()).limit(1)
    return query if team is None else query.where(table.team == team)


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
