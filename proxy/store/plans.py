"""What was decided for each conversation at its first call, the same for every process.

The first to keep a plan decides; whoever comes later gets that one back. A plan only ever grows:
tools are appended and further caches added, nothing in it changes.
"""

import time
from collections.abc import Mapping
from itertools import islice

import msgspec
from sqlalchemy import Connection, Engine, delete, select, text, update

from proxy.prefix.plan import Plan
from proxy.store import schema
from proxy.store.database import reading, writing

_TOUCHED_EVERY = 43_200.0
_STEP = 2_000
#: A caller who names new tools with every call fills so many places and no more.
_TOOLS = 1_024
_POLICIES = 64

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
        if row.used < _micros(now - _TOUCHED_EVERY):
            self._touch(conversation, now)
        return _decode(row.plan)

    def keep(self, conversation: str, plan: Plan, now: float) -> Plan:
        """What holds for the conversation from now on: this plan, or the one that came first.

        Tools after the first 1,024 and policies after the first 64 are not kept.
        """
        with writing(self._engine) as connection:
            return _kept(connection, conversation, plan, now)

    def grow_all(self, plans: Mapping[str, Plan], now: float) -> dict[str, Plan]:
        """The plans of many conversations with what these add to them, in one step."""
        with writing(self._engine) as connection:
            return {
                conversation: _grown(connection, conversation, plan, now)
                for conversation, plan in sorted(plans.items())
            }

    def grow(self, conversation: str, plan: Plan, now: float) -> Plan:
        """The conversation's plan with what this one adds to it, from now on.

        Of processes that add at once each gets all that was added before it, in that order.
        """
        with writing(self._engine) as connection:
            return _grown(connection, conversation, plan, now)

    def retain(self, since: float, budget: float) -> int:
        """How many plans were deleted because nobody asked for them after ``since``.

        Args:
            since: Seconds since the epoch.
            budget: Seconds after which no further step begins.
        """
        plans, until, deleted = schema.plans, time.monotonic() + budget, 0
        old = plans.c.used < _micros(since)
        some = select(plans.c.conversation).where(old).order_by(plans.c.used).limit(_STEP)
        # Said twice: on PostgreSQL a plan may be asked for between being found and deleted.
        step = delete(plans).where(plans.c.conversation.in_(some), old)
        while time.monotonic() < until:
            with writing(self._engine) as connection:
                gone = connection.execute(step).rowcount
            deleted += gone
            if not gone:
                break
        return deleted

    def _touch(self, conversation: str, now: float) -> None:
        plans = schema.plans
        touch = update(plans).where(plans.c.conversation == conversation)
        with writing(self._engine) as connection:
            connection.execute(touch.values(used=_micros(now)))


def merged(kept: Plan, more: Plan) -> Plan:
    """The kept plan with the tools and policies it lacks; where both speak, it holds.

    One that begins anew with a newer layout takes its place.
    """
    if more.anew and more.layout > kept.layout:
        return more
    known = frozenset(kept.tools)
    new = dict.fromkeys(tool for tool in more.tools if tool not in known)
    policies = more.policies | kept.policies
    first = [*kept.policies, *(name for name in more.policies if name not in kept.policies)]
    return Plan(
        arm=kept.arm,
        layout=kept.layout,
        tools=(*kept.tools, *new)[:_TOOLS],
        policies={name: policies[name] for name in islice(first, _POLICIES)},
        joined=kept.joined,
        anew=kept.anew,
    )


def _kept(connection: Connection, conversation: str, plan: Plan, now: float) -> Plan:
    fit = merged(Plan(arm=plan.arm, layout=plan.layout, joined=plan.joined), plan)
    values = {
        "conversation": conversation,
        "plan": _encode(fit).decode(),
        "used": _micros(now),
    }
    stored: str = connection.execute(_KEEP, values).scalar_one()
    return _decode(stored)


def _grown(connection: Connection, conversation: str, plan: Plan, now: float) -> Plan:
    plans = schema.plans
    kept = _kept(connection, conversation, plan, now)
    grown = merged(kept, plan)
    if grown != kept:
        change = update(plans).where(plans.c.conversation == conversation)
        connection.execute(change.values(plan=_encode(grown).decode()))
    return grown


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)
