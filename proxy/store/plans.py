"""What was decided for each conversation at its first call, the same for every process.

The first to bring a plan decides; whoever comes later gets that one back. A plan only ever grows:
tools are appended and further caches added, nothing in it changes.
"""

from collections.abc import Mapping

import msgspec
from sqlalchemy import Connection, Engine, select, text, update

from proxy.prefix.marking.plan import Plan, merged
from proxy.store import schema
from proxy.store.database import dropped_unused, reading, writing
from proxy.store.moments import micros

_TOUCHED_EVERY = 43_200.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Plan).decode

# A row that is there is locked and told, one that is not is made: in one step, on both databases.
_KEEP = text(
    "INSERT INTO plans (conversation, plan, used) VALUES (:conversation, :plan, :used) "
    "ON CONFLICT (conversation) DO UPDATE SET used = excluded.used RETURNING plan"
)


class Plans:
    """The plans in one database; every method may block."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, conversation: str, now: float) -> Plan | None:
        """The conversation's plan; None where it has none.

        Retention counts from the last time this was asked, to within half a day.
        """
        plans = schema.plans.c
        query = select(plans.plan, plans.used).where(plans.conversation == conversation)
        with reading(self._engine) as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        if row.used < micros(now - _TOUCHED_EVERY):
            self._touch(conversation, now)
        return _decode(row.plan)

    def grow_all(self, plans: Mapping[str, Plan], now: float) -> dict[str, Plan]:
        """The plans of these conversations with what these add to them, kept in one step.

        Where there is none yet this one is kept. Of processes that add at once each gets all that
        was added before it, in that order.
        """
        with writing(self._engine) as connection:
            return {
                conversation: _grown(connection, conversation, plan, now)
                for conversation, plan in sorted(plans.items())
            }

    def retain(self, since: float, budget: float) -> int:
        """How many plans were deleted because nobody asked for them after ``since``.

        Args:
            since: Seconds since the epoch.
            budget: Seconds after which no further step begins.
        """
        return dropped_unused(self._engine, schema.plans, since, budget)

    def _touch(self, conversation: str, now: float) -> None:
        plans = schema.plans
        touch = update(plans).where(plans.c.conversation == conversation)
        with writing(self._engine) as connection:
            connection.execute(touch.values(used=micros(now)))


def _grown(connection: Connection, conversation: str, plan: Plan, now: float) -> Plan:
    """The conversation's plan with what this one adds to it, from now on."""
    alone = merged(Plan(arm=plan.arm, layout=plan.layout, joined=plan.joined), plan)
    values = {
        "conversation": conversation,
        "plan": _encode(alone).decode(),
        "used": micros(now),
    }
    kept = _decode(connection.execute(_KEEP, values).scalar_one())
    grown = merged(kept, plan)
    if grown != kept:
        plans = schema.plans
        change = update(plans).where(plans.c.conversation == conversation)
        connection.execute(change.values(plan=_encode(grown).decode()))
    return grown
