"""Budgets that people set on pages, beside those of the policies file."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Engine, delete, func, select

from dashboards.views.access import AuditEntryView
from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import (
    AuditedChange,
    Facts,
    check_last_change,
    record_change,
)
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import update_clause, upsert
from proxy.store.sql.timestamps import micros, seconds
from slo.budgets.budget import Budget

#: As many as a policies file may have.
MAX_STORED_BUDGETS: Final = 1_000
#: Of these, budgets about one team and its keys that a team's own admin may fill.
MAX_TEAM_BUDGETS: Final = 100
#: Words of the audit log for changes of budgets; the last is of those that went.
BUDGET_CHANGES: Final = ("create budget", "change budget", "remove budget")

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Budget).decode
_SET: Final = upsert(schema.stored_budgets, update_clause("text", "changed_by", "changed_at"))


class StoredBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A budget as it was set last.

    Attributes:
        changed_at: Seconds since the epoch.
    """

    budget: Budget
    changed_by: str
    changed_at: float


class StoredBudgets:
    """The budgets in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> list[StoredBudget]:
        """All of them by name; what a newer version wrote that this one cannot read is left out."""
        table = schema.stored_budgets
        with read_transaction(self._engine) as connection:
            rows = connection.execute(select(table).order_by(table.c.name)).all()
        budgets = []
        for row in rows:
            with suppress(msgspec.DecodeError):
                budgets.append(
                    StoredBudget(
                        budget=_decode(row.text),
                        changed_by=row.changed_by,
                        changed_at=seconds(row.changed_at),
                    )
                )
        return budgets

    def revision(self) -> tuple[int, int]:
        """A value that differs after each change: their number, and when one was last set."""
        table = schema.stored_budgets.c
        query = select(func.count(), func.coalesce(func.max(table.changed_at), 0))
        with read_transaction(self._engine) as connection:
            count, latest = connection.execute(query.select_from(schema.stored_budgets)).one()
        return int(count), int(latest)

    def set(
        self,
        budget: Budget,
        who: str,
        now: float,
        team: str | None = None,
        *,
        has_share: bool = False,
        seen: str | None = None,
    ) -> None:
        """Set a budget, in place of the one of its name.

        Args:
            team: Id of the team it is about, for the audit log; None for no team alone.
            has_share: True if budgets about this team may take no more than a team's share.
            seen: Id of its last change that the author saw, "" for none; None to set it anyhow.

        Raises:
            CallerError: Its last change is another.
            ValueError: There are as many as there may be.
        """
        table = schema.stored_budgets
        row = {"name": budget.name, "text": _encode(budget).decode(), "changed_by": who}
        with write_transaction(self._engine) as connection:
            check_last_change(connection, seen, budget.name, BUDGET_CHANGES)
            before = _facts(connection, budget.name)
            if before is None:
                _check_room(connection, team if has_share else None)
            latest = connection.execute(select(func.max(table.c.changed_at))).scalar() or 0
            connection.execute(_SET, {**row, "changed_at": max(micros(now), latest + 1)})
            change = AuditedChange(
                who=who,
                action="change budget" if before else "create budget",
                subject=budget.name,
                team=team,
                before=before,
                after=_facts(connection, budget.name),
            )
            record_change(connection, change, now)

    def remove(
        self,
        name: str,
        who: str,
        now: float,
        team: str | None = None,
        *,
        seen: str | None = None,
    ) -> bool:
        """Remove a budget as ``set`` sets it; False if there is none of this name."""
        table = schema.stored_budgets
        with write_transaction(self._engine) as connection:
            check_last_change(connection, seen, name, BUDGET_CHANGES)
            before = _facts(connection, name)
            if before is None:
                return False
            connection.execute(delete(table).where(table.c.name == name))
            change = AuditedChange(
                who=who, action="remove budget", subject=name, team=team, before=before
            )
            record_change(connection, change, now)
        return True


def _check_room(connection: Connection, team: str | None) -> None:
    """Check that one more budget may be stored.

    Raises:
        ValueError: There are as many as there may be.
    """
    count = connection.execute(select(func.count()).select_from(schema.stored_budgets)).scalar_one()
    if count >= MAX_STORED_BUDGETS:
        raise ValueError(f"there are {MAX_STORED_BUDGETS:,} budgets; remove one first")
    if team is not None and _count_of_team(connection, team) >= MAX_TEAM_BUDGETS:
        raise ValueError(
            f"the team and its keys have {MAX_TEAM_BUDGETS:,} budgets, a team's share of"
            f" {MAX_STORED_BUDGETS:,}; remove one first, or have an admin set it"
        )


def _count_of_team(connection: Connection, team: str) -> int:
    """The number of stored budgets about a team, by its id, and its keys."""
    teams, keys = schema.teams.c, schema.keys.c
    names = set(connection.execute(select(teams.name).where(teams.id == team)).scalars())
    texts = connection.execute(select(schema.stored_budgets.c.text)).scalars()
    owners = [
        (document.get("scope"), document.get("of")) for document in map(msgspec.json.decode, texts)
    ]
    listed = [of for scope, of in owners if scope == "key"]
    own_keys = select(keys.id).where(keys.team == team, keys.id.in_(listed))
    own = {"team": names, "key": set(connection.execute(own_keys).scalars())}
    return sum(of in own.get(scope, ()) for scope, of in owners)


def _facts(connection: Connection, name: str) -> Facts | None:
    """The fields of a stored budget; None where there is none."""
    table = schema.stored_budgets.c
    text = connection.execute(select(table.text).where(table.name == name)).scalar()
    if text is None:
        return None
    fields: dict[str, Any] = msgspec.json.decode(text)
    return fields


def budget_before(change: AuditEntryView) -> Budget | None:
    """The budget before a change of it; None where there was none.

    Raises:
        ValueError: A newer version wrote what was before.
    """
    try:
        return None if change.before is None else msgspec.convert(change.before, Budget)
    except msgspec.ValidationError as error:
        raise ValueError("what was before cannot be read") from error


def budgets_beside(file: Sequence[Budget], stored: Sequence[Budget]) -> tuple[Budget, ...]:
    """The budgets of the policies file, then the stored ones whose names it does not have."""
    names = {budget.name for budget in file}
    return (*file, *(budget for budget in stored if budget.name not in names))
