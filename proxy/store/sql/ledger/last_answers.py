"""The last answers, from receipts: how long they were, and whether they kept to their ceilings."""

from typing import Final

import msgspec
from sqlalchemy import BigInteger, Engine, case, cast, func, select

from proxy.records.receipt import Outcome
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from slo.budget import EVERY
from slo.ceiling import Ceiling

#: Receipts that one question reads at most; the newest.
MAX_RECEIPTS: Final = 20_000


class PastAnswer(msgspec.Struct, frozen=True):
    """One whole answer, whose usage its upstream told.

    Attributes:
        team: Its id.
        feature: "" where nobody said.
        model: The public name asked for.
        route: The route it came by.
        generated: Its tokens, reasoning included.
        notes: Changes of the gateway to its call, in JSON.
    """

    team: str
    feature: str
    model: str
    route: str
    generated: int
    notes: str


class CeilingCompliance(msgspec.Struct, frozen=True):
    """Counts of the calls under a ceiling, and of those that stayed within it.

    Attributes:
        calls: Those that used something and whose cost is known.
        within: Those of them that cost no more than the ceiling.
        unpriced: Those whose cost nobody knows; they are none of the calls.
        dearest: Cost of the dearest of them, in nano-dollars; None where there are none.
    """

    calls: int
    within: int
    unpriced: int
    dearest: int | None


class Answers:
    """The last answers, over one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def last(self, limit: int = MAX_RECEIPTS) -> list[PastAnswer]:
        """The answers among the last receipts, the newest last.

        Ids sort by time, so this walks the end of the primary key.

        Args:
            limit: Receipts to look at.
        """
        table = schema.calls
        names = ("team", "feature", "model", "route", "output", "reasoning", "notes")
        more = ("outcome", "estimated", "call_id", "attempt")
        ends = (
            select(*(table.c[name] for name in (*names, *more)))
            .order_by(table.c.call_id.desc(), table.c.attempt.desc())
            .limit(limit)
            .subquery("ends")
            .c
        )
        query = (
            select(*(ends[name] for name in names))
            .where(
                ends.outcome == Outcome.ANSWERED.value,
                ends.estimated == 0,
                ends.output.is_not(None),
            )
            .order_by(ends.call_id, ends.attempt)
        )
        with read_transaction(self._engine) as connection:
            return [
                PastAnswer(team, feature, model, route, output + reasoning, notes)
                for team, feature, model, route, output, reasoning, notes in connection.execute(
                    query
                )
            ]

    def ceiling_compliance(self, ceiling: Ceiling, most: int = MAX_RECEIPTS) -> CeilingCompliance:
        """Compliance with a ceiling, by the last receipts of all; a call's attempts are one cost.

        Args:
            ceiling: The ceiling, as it is now.
            most: Receipts to look at.
        """
        table = schema.calls
        names = ("call_id", "team", "feature", "output", "cost_nanos")
        ends = (
            select(*(table.c[name] for name in names))
            .order_by(table.c.call_id.desc(), table.c.attempt.desc())
            .limit(most)
            .subquery("ends")
        )
        used = select(
            cast(func.sum(ends.c.cost_nanos), BigInteger).label("nanos"),
            func.sum(case((ends.c.cost_nanos.is_(None), 1), else_=0)).label("unknown"),
        ).where(ends.c.output.is_not(None))
        if ceiling.team != EVERY:
            named = select(schema.teams.c.id).where(schema.teams.c.name == ceiling.team)
            used = used.where(ends.c.team.in_(named))
        if ceiling.feature != EVERY:
            used = used.where(ends.c.feature == ceiling.feature)
        calls = used.group_by(ends.c.call_id).subquery("calls")
        nanos, is_known = calls.c.nanos, calls.c.unknown == 0
        query = select(
            func.count().filter(is_known),
            func.count().filter(is_known, nanos <= ceiling.limit),
            func.count().filter(calls.c.unknown > 0),
            func.max(nanos).filter(is_known),
        ).select_from(calls)
        with read_transaction(self._engine) as connection:
            return CeilingCompliance(*connection.execute(query).one())
