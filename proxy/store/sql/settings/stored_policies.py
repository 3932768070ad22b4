"""Policies that people set on pages, by the fields of their tables in the policies file."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Engine, delete, func, select

from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import (
    AuditedChange,
    check_last_change,
    record_change,
)
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import update_clause, upsert
from proxy.store.sql.timestamps import micros, seconds

#: Policies of all kinds that are kept.
MAX_STORED_POLICIES: Final = 500
_VERBS: Final = ("create", "change", "remove")
#: Words of the audit log for a policy, or an entry of the catalog, of each kind that people set.
NOUNS: Final[Mapping[str, str]] = {
    "ceilings": "ceiling",
    "objectives": "objective",
    "sinks": "sink",
    "reports": "report",
    "models": "model",
    "model_aliases": "model alias",
}
#: The kind of routes and models that people have disabled, and the words of the audit log.
DISABLED_ROUTES: Final = "disabled_routes"
_DISABLED_ROUTES_ACTIONS: Final = {"create": "disable", "change": "disable", "remove": "enable"}
_SET: Final = upsert(schema.stored_policies, update_clause("fields", "changed_by", "changed_at"))

PolicyFields = Mapping[str, Any]
"""The fields of a policy's table in the policies file, as JSON has them."""


class StoredPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy as it was set last.

    Attributes:
        kind: Its array in the policies file, such as ``ceilings``.
        changed_at: Seconds since the epoch.
    """

    kind: str
    name: str
    fields: PolicyFields
    changed_by: str
    changed_at: float


class StoredPolicies:
    """The policies in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> Sequence[StoredPolicy]:
        """Those of kinds that this version knows, by kind and name."""
        table = schema.stored_policies
        query = select(table).where(table.c.kind.in_([*NOUNS, DISABLED_ROUTES]))
        with read_transaction(self._engine) as connection:
            rows = connection.execute(query.order_by(table.c.kind, table.c.name)).all()
        return [
            StoredPolicy(
                kind=row.kind,
                name=row.name,
                fields=msgspec.json.decode(row.fields),
                changed_by=row.changed_by,
                changed_at=seconds(row.changed_at),
            )
            for row in rows
        ]

    def revision(self) -> tuple[int, int]:
        """A value that differs after each change: their number, and when one was last set."""
        table = schema.stored_policies
        query = select(func.count(), func.coalesce(func.max(table.c.changed_at), 0))
        with read_transaction(self._engine) as connection:
            count, latest = connection.execute(query.select_from(table)).one()
        return int(count), int(latest)

    def set(
        self, kind: str, fields: PolicyFields, who: str, now: float, seen: str | None = None
    ) -> None:
        """Set a policy, in place of the one of its kind and name.

        Args:
            seen: Id of its last change that the author saw, "" for none; None to set it anyhow.

        Raises:
            CallerError: Its last change is another.
            ValueError: There are as many as there may be.
        """
        table, name = schema.stored_policies, fields["name"]
        with write_transaction(self._engine) as connection:
            check_last_change(connection, seen, name, policy_changes(kind))
            _remove_ended(connection, now)
            before = _fields(connection, kind, name)
            count = connection.execute(select(func.count()).select_from(table)).scalar_one()
            if before is None and count >= MAX_STORED_POLICIES:
                raise ValueError(f"there are {MAX_STORED_POLICIES} policies; remove one first")
            latest = connection.execute(select(func.max(table.c.changed_at))).scalar() or 0
            row = {"kind": kind, "name": name, "changed_by": who}
            text = msgspec.json.encode(fields).decode()
            changed_at = max(micros(now), latest + 1)
            connection.execute(_SET, {**row, "fields": text, "changed_at": changed_at})
            verb = _VERBS[0] if before is None else _VERBS[1]
            record_change(connection, _change(verb, kind, name, who, before, fields), now)

    def remove(self, kind: str, name: str, who: str, now: float, seen: str | None = None) -> bool:
        """Remove a policy as ``set`` sets it; False if there is none of this kind and name."""
        table = schema.stored_policies
        with write_transaction(self._engine) as connection:
            check_last_change(connection, seen, name, policy_changes(kind))
            _remove_ended(connection, now)
            before = _fields(connection, kind, name)
            if before is None:
                return False
            connection.execute(delete(table).filter_by(kind=kind, name=name))
            record_change(connection, _change(_VERBS[2], kind, name, who, before, None), now)
        return True


def _remove_ended(connection: Connection, now: float) -> None:
    """Remove what was disabled for a time that is over."""
    table = schema.stored_policies
    query = select(table.c.name, table.c.fields).filter_by(kind=DISABLED_ROUTES)
    for name, text in connection.execute(query).all():
        until = msgspec.json.decode(text)["until"]
        if until is not None and until <= now:
            connection.execute(delete(table).filter_by(kind=DISABLED_ROUTES, name=name))


def policy_changes(kind: str) -> Sequence[str]:
    """Words of the audit log for changes of a kind."""
    return [_action(verb, kind) for verb in _VERBS]


def _action(verb: str, kind: str) -> str:
    return _DISABLED_ROUTES_ACTIONS[verb] if kind == DISABLED_ROUTES else f"{verb} {NOUNS[kind]}"


def _fields(connection: Connection, kind: str, name: str) -> PolicyFields | None:
    query = select(schema.stored_policies.c.fields).filter_by(kind=kind, name=name)
    text = connection.execute(query).scalar()
    return None if text is None else msgspec.json.decode(text)


def _change(
    verb: str,
    kind: str,
    name: str,
    who: str,
    before: PolicyFields | None,
    after: PolicyFields | None,
) -> AuditedChange:
    action = _action(verb, kind)
    return AuditedChange(who=who, action=action, subject=name, before=before, after=after)
