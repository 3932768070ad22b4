"""Calls that callers made more than once, which an answer cache would have answered."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from dashboards.reports import SpendFilter
from proxy.records.receipt import Outcome
from proxy.store.sql import schema
from proxy.store.sql.ids import id_floor
from proxy.store.sql.rollups.spend_filters import Columns, filter_conditions

#: Attempts among which they are looked for, the newest of all teams.
MAX_ATTEMPTS: Final = 2_000


class RepeatedCalls(NamedTuple):
    """Answered calls of a feature, and those of them that equal an earlier one of its model.

    Attributes:
        calls: Number of calls that were compared.
        repeated: Number of those that equal an earlier one.
        cost_nanos: Known cost of the calls that were compared, in nano-dollars.
        repeated_nanos: The same of those that equal an earlier one.
    """

    calls: int = 0
    repeated: int = 0
    cost_nanos: int = 0
    repeated_nanos: int = 0

    def plus(self, nanos: int, *, is_repeated: bool) -> "RepeatedCalls":
        """The same with one more call."""
        return RepeatedCalls(
            self.calls + 1,
            self.repeated + is_repeated,
            self.cost_nanos + nanos,
            self.repeated_nanos + nanos * is_repeated,
        )


def repeated_calls(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> Mapping[tuple[str, str], RepeatedCalls]:
    """The newest calls by team and feature, and how many of them were made before.

    Equal calls have equal fingerprints: hashes of their whole bodies, keyed by team.
    """
    seen, sums = set[tuple[str, ...]](), dict[tuple[str, str], RepeatedCalls]()
    for nanos, *call in reversed(_newest(connection, period, only)):
        team, feature, *_ = call
        former = sums.get((team, feature), RepeatedCalls())
        sums[team, feature] = former.plus(nanos or 0, is_repeated=tuple(call) in seen)
        seen.add(tuple(call))
    return sums


def newest_attempts(period: tuple[int, int]) -> Columns:
    """The columns of the newest attempts of a period, of all teams.

    They are bounded before they are filtered: a team of few calls must not have all others' read.
    """
    calls = schema.calls.c
    return (
        select(schema.calls)
        .where(calls.call_id >= id_floor(period[0]), calls.call_id < id_floor(period[1]))
        .order_by(calls.call_id.desc())
        .limit(MAX_ATTEMPTS)
        .subquery("newest")
        .c
    )


def _newest(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> Sequence[Sequence[Any]]:
    """Cost, team, feature, endpoint, model and fingerprint of the newest calls with a body."""
    newest = newest_attempts(period)
    query = (
        select(
            newest.cost_nanos,
            newest.team,
            newest.feature,
            newest.endpoint,
            newest.model,
            newest.fingerprint,
        )
        .where(
            newest.final == 1,
            newest.outcome == Outcome.ANSWERED.value,
            newest.fingerprint != "",
            *filter_conditions(newest, only),
        )
        .order_by(newest.call_id.desc())
    )
    return connection.execute(query).all()
