"""Lengths of recent answers, and if they stayed within their ceilings, from receipts."""

from typing import Final

import msgspec
from sqlalchemy import Engine, select

from proxy.records.receipt import Outcome
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction

#: Receipts that one question reads at most; the newest.
MAX_RECEIPTS: Final = 20_000


class PastAnswer(msgspec.Struct, frozen=True):
    """One whole answer, whose usage its upstream told.

    Attributes:
        generated: Its tokens, reasoning included.
        notes: Changes of the gateway to its call, in JSON.
    """

    team: str
    feature: str
    model: str
    route: str
    generated: int
    notes: str


class Answers:
    """The last answers, over one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def last(self, limit: int = MAX_RECEIPTS) -> list[PastAnswer]:
        """The answers among the last receipts, the newest last.

        Ids sort by time, so this walks the end of the primary key.
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
