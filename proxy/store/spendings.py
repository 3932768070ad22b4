"""What the ledger says was used, by whom, from rollups alone: what budgets are compared with."""

from typing import Final

import msgspec
from sqlalchemy import BigInteger, Engine, cast, func, literal, select

from proxy.store import schema
from proxy.store.database import reading
from slo.budget import EVERY

_DAY = 86_400
#: Teams, keys and features that one budget is compared for, those that used most.
MOST: Final = 5_000


class Spending(msgspec.Struct, frozen=True):
    """What was used.

    Attributes:
        nanos: In 1e-9 US dollars, as far as prices were known.
        tokens: In all buckets together.
    """

    nanos: int
    tokens: int


class Spendings:
    """What was used, over one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, scope: str, start: float, end: float) -> dict[str, Spending]:
        """By the names that budgets of this scope know: of teams, keys and features.

        Rollups have no requests that were sent, no end users and no labels.

        Args:
            scope: ``organization``, ``team``, ``key`` or ``feature``; {} for others.
            start: Seconds since the epoch, a whole quarter of an hour.
            end: The same, not included.
        """
        table = schema.rollups
        whose = {
            "organization": literal(EVERY),
            "team": schema.teams.c.name,
            "key": table.c.key_id,
            "feature": table.c.feature,
        }.get(scope)
        if whose is None:
            return {}
        tokens = sum((table.c[bucket] for bucket in schema.BUCKETS), literal(0))
        nanos = cast(func.coalesce(func.sum(table.c.cost_nanos), 0), BigInteger).label("nanos")
        source = table
        query = select(whose.label("whose"), nanos, cast(func.sum(tokens), BigInteger).label("n"))
        if scope == "team":
            query = query.select_from(source.join(schema.teams, schema.teams.c.id == source.c.team))
        query = (
            query.where(
                table.c.day.between(int(start) // _DAY, int(end) // _DAY),
                table.c.quarter >= int(start),
                table.c.quarter < int(end),
            )
            .group_by("whose")
            .order_by(nanos.desc())
            .limit(MOST)
        )
        with reading(self._engine) as connection:
            return {row.whose: Spending(row.nanos, row.n) for row in connection.execute(query)}
