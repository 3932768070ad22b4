"""Plans of conversations, decided at the first call and the same for every process.

The first writer wins, and later ones get its plan. A plan only grows: tools are appended and
further caches added, nothing in it changes.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection, Engine, text, update

from proxy.prefix.breakpoints.plan import SEVERAL, Plan, merge_plans
from proxy.store.sql import schema
from proxy.store.sql.database import delete_unused, read_transaction, write_transaction
from proxy.store.sql.rows import update_clause, upsert
from proxy.store.sql.timestamps import seconds

_TOUCH_INTERVAL_S = 43_200.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Plan).decode

# A row that is there is locked, one that is not is made: in one step, on both databases.
_KEEP: Final = upsert(schema.plans, update_clause("used"))
_CHANGE: Final = text("UPDATE plans SET plan = :plan WHERE conversation = :conversation")


class _StoredPlan(NamedTuple):
    conversation: str
    plan: Plan
    used: float


class Plans:
    """The plans in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, conversation: str, now: float) -> Plan | None:
        """The conversation's plan; None where it has none.

        Retention counts from the last time this was asked, to within half a day.
        """
        return self.find_all((conversation,), now).get(conversation)

    def find_all(self, conversations: Sequence[str], now: float) -> dict[str, Plan]:
        """The plans of those of these conversations that have one.

        One that only names where the plan is kept is given together with that plan.
        """
        with read_transaction(self._engine) as connection:
            rows = _rows(connection, conversations)
            plans_by_conversation = {row.conversation: row.plan for row in rows}
            named = {plan.conversation for plan in plans_by_conversation.values()} - {
                "",
                SEVERAL,
                *plans_by_conversation,
            }
            if named:
                more = _rows(connection, sorted(named))
                plans_by_conversation |= {row.conversation: row.plan for row in more}
                rows = [*rows, *more]
        if idle := [row.conversation for row in rows if row.used < now - _TOUCH_INTERVAL_S]:
            self._touch(idle, now)
        return plans_by_conversation

    def grow_all(self, plans: Mapping[str, Plan], now: float) -> dict[str, Plan]:
        """The plans of these conversations with what these add to them, kept in one step.

        Where there is none yet this one is kept. Of processes that add at once each gets all that
        was added before it, in that order.
        """
        if not plans:
            return {}
        names = sorted(plans)  # locked in one order, whoever else adds
        rows = [_new_row(name, plans[name], now) for name in names]
        with write_transaction(self._engine) as connection:
            connection.execute(_KEEP, rows)
            stored = {row.conversation: row.plan for row in _rows(connection, names)}
            grown = {name: merge_plans(stored[name], plan) for name, plan in plans.items()}
            changes = [
                {"conversation": name, "plan": _encode(grown[name]).decode()}
                for name in names
                if grown[name] != stored[name]
            ]
            if changes:
                connection.execute(_CHANGE, changes)
        return grown

    def retain(self, since: float, budget: float) -> int:
        """Delete plans that nobody asked for after ``since``; returns their number.

        Args:
            budget: Seconds after which no further step begins.
        """
        return delete_unused(self._engine, schema.plans, since, budget)

    def _touch(self, conversations: Sequence[str], now: float) -> None:
        plans = schema.plans
        touch = update(plans).values(used=now)
        with write_transaction(self._engine) as connection:
            for one in sorted(conversations):  # locked in the order in which plans grow
                connection.execute(touch.where(plans.c.conversation == one))


def _rows(connection: Connection, conversations: Sequence[str]) -> list[_StoredPlan]:
    """The rows of these conversations; without SQLAlchemy's compiler, which takes longest of it."""
    if not conversations:
        return []
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    marks = ", ".join([mark] * len(conversations))
    query = f"SELECT conversation, plan, used FROM plans WHERE conversation IN ({marks})"  # noqa: S608 - marks alone
    rows = connection.exec_driver_sql(query, tuple(conversations))
    return [_StoredPlan(row[0], _decode(row[1]), seconds(row[2])) for row in rows]


def _new_row(conversation: str, plan: Plan, now: float) -> dict[str, object]:
    """The row of a conversation that has no plan yet, which is bounded as one that grew."""
    if not plan.conversation:
        empty = msgspec.structs.replace(plan, tools=(), policies={}, onward=())
        plan = merge_plans(empty, plan)
    return {"conversation": conversation, "plan": _encode(plan).decode(), "used": now}
