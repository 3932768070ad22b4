"""Calls of a day from their receipts, the first ones of it, for trials of policies."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import msgspec
from sqlalchemy import Row, Select, select

from proxy.records.receipt import IDLE_TEAM, Outcome
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.timestamps import seconds
from proxy.store.sql.views.readers import Readers
from slo.budgets.budget import Subject
from slo.objectives.objective import CallMeasurements
from slo.trials.past_call import PastCall
from slo.usage import Usage

DAY_S: Final = 86_400
#: Calls of a day that a trial reads.
MAX_CALLS: Final = 50_000
#: Receipts that are read for them; few calls have more than one.
_MAX_RECEIPTS: Final = 50_000
_COLUMNS: Final = (
    *("call_id", "started", "outcome", "team", "key_id", "feature", "user_hash", "model"),
    *("streamed", "ttft", "duration", "cost_nanos", "expected_read", "final"),
    *schema.BUCKETS,
)
_FAILURES: Final = frozenset({Outcome.FAILED.value, Outcome.BROKEN.value})


class CallsOfDay(msgspec.Struct, frozen=True):
    """The calls of a day of UTC that were sent, in the order of their arrival.

    Attributes:
        start: Midnight before them, in seconds since the epoch.
        read_until: Time up to which they were read, where there were more than are read; else None.
    """

    start: float
    calls: Sequence[PastCall]
    read_until: float | None


def yesterday(now: float) -> float:
    """Midnight at which yesterday began, in seconds since the epoch."""
    return now // DAY_S * DAY_S - DAY_S


def calls_of_day(
    readers: Readers, start: float, only: Mapping[str, str], limit: int = _MAX_RECEIPTS
) -> CallsOfDay:
    """The calls of the day that began at ``start``; blocks.

    Args:
        only: Values of columns that wanted calls have: a team's id, a key, a feature.
        limit: Receipts that are read.
    """
    names = readers.team_names()
    with read_transaction(readers.engine) as connection:
        rows = connection.execute(_query(start, only).limit(limit + 1)).all()
    is_cut = len(rows) > limit
    calls = [*_calls(rows[:limit], names)]
    if is_cut and calls:
        calls.pop()  # its other attempts may not have been read
    return CallsOfDay(start, calls, seconds(rows[limit].started) if is_cut else None)


def _query(start: float, only: Mapping[str, str]) -> Select[Any]:
    calls = schema.calls.c
    return (
        select(*(calls[name] for name in _COLUMNS))
        .where(
            calls.call_id >= id_floor(start),
            calls.call_id < id_floor(start + DAY_S),
            calls.team != IDLE_TEAM,
            calls.outcome != Outcome.REFUSED.value,
            *(calls[name] == value for name, value in only.items()),
        )
        .order_by(calls.call_id, calls.attempt)
    )


def _calls(rows: Sequence[Row[Any]], names: Mapping[str, str]) -> Iterator[PastCall]:
    for _, attempts in groupby(rows, attrgetter("call_id")):
        yield _call([*attempts], names)


def _call(attempts: Sequence[Row[Any]], names: Mapping[str, str]) -> PastCall:
    """The call of its attempts, the last of which is how it ended."""
    end = next((row for row in attempts if row.final), attempts[-1])
    usage = _usage(end)
    used = [row for row in attempts if row.input is not None]
    is_priced = all(row.cost_nanos is not None for row in used)
    cost = sum(row.cost_nanos or 0 for row in attempts) if is_priced else None
    team, feature = names.get(end.team, end.team), end.feature or ""
    return PastCall(
        arrived=seconds(end.started),
        subject=Subject(team=team, key=end.key_id, feature=feature, user=end.user_hash or ""),
        model=end.model or "",
        tokens=sum(sum(row[-len(schema.BUCKETS) :]) for row in used),
        usage=usage,
        measurements=CallMeasurements(
            team=team,
            feature=feature,
            streamed=bool(end.streamed),
            ttft=None if end.ttft is None else seconds(end.ttft),
            total=seconds(end.duration),
            failed=end.outcome in _FAILURES,
            hung_up=end.outcome == Outcome.HUNG_UP.value,
            cost_nanos=cost,
            prompt_tokens=0 if usage is None else usage.prompt_tokens,
            cache_read=0 if usage is None else usage.cache_read,
            first_turn=not end.expected_read,
            generated=True,
        ),
    )


def _usage(row: Row[Any]) -> Usage | None:
    if row.input is None:
        return None
    return Usage(**dict(zip(schema.BUCKETS, row[-len(schema.BUCKETS) :], strict=True)))
