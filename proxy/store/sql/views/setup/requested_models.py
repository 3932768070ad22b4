"""Calls of yesterday by team and by the model that they asked for."""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import func, select

from proxy.records.receipt import IDLE_TEAM
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.past_calls import DAY_S, yesterday

_MAX_ATTEMPTS: Final = 50_000


class RequestedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a team that asked for a model.

    Attributes:
        team: The team's name.
        model: The name that callers wrote.
    """

    team: str
    model: str
    calls: int


def requested_models(readers: Readers, now: float) -> Sequence[RequestedModel]:
    """Yesterday's calls by team and model, of the first 50,000 attempts, most first; blocks."""
    start, calls = yesterday(now), schema.calls.c
    attempts = (
        select(calls.call_id, calls.team, calls.model)
        .where(
            calls.call_id >= id_floor(start),
            calls.call_id < id_floor(start + DAY_S),
            calls.team != IDLE_TEAM,
        )
        .order_by(calls.call_id, calls.attempt)
        .limit(_MAX_ATTEMPTS)
        .subquery()
        .c
    )
    count = func.count(attempts.call_id.distinct())
    query = select(attempts.team, attempts.model, count.label("calls"))
    query = query.group_by(attempts.team, attempts.model).order_by(count.desc(), attempts.model)
    names = readers.team_names()
    with read_transaction(readers.engine) as connection:
        return [
            RequestedModel(team=names.get(team, team), model=model, calls=number)
            for team, model, number in connection.execute(query)
        ]
