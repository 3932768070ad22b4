"""Kept prompts that callers sent more than once, which an answer cache would have answered."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from dashboards.reports import SpendFilter
from proxy.store.sql import schema
from proxy.store.sql.ids import id_floor
from proxy.store.sql.rollups.spend_filters import filter_conditions

#: Kept prompts that are compared, the newest.
MAX_PROMPTS: Final = 200
#: Attempts among which they are looked for, the newest of all teams.
_MAX_CALLS: Final = 2_000


class RepeatedPrompts(NamedTuple):
    """Kept prompts of a feature, and those of them that equal an earlier one of its model.

    Attributes:
        prompts: Number of prompts that were compared.
        repeated: Number of those that equal an earlier one.
        cost_nanos: Known cost of the calls that were compared, in nano-dollars.
        repeated_nanos: The same of those that equal an earlier one.
    """

    prompts: int = 0
    repeated: int = 0
    cost_nanos: int = 0
    repeated_nanos: int = 0

    def plus(self, nanos: int, *, is_repeated: bool) -> "RepeatedPrompts":
        """The same with one more call."""
        return RepeatedPrompts(
            self.prompts + 1,
            self.repeated + is_repeated,
            self.cost_nanos + nanos,
            self.repeated_nanos + nanos * is_repeated,
        )


def repeated_prompts(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> Mapping[tuple[str, str], RepeatedPrompts]:
    """Kept prompts by team and feature, and how many of the newest were sent before."""
    seen, sums = set[tuple[str, str, str, str]](), dict[tuple[str, str], RepeatedPrompts]()
    for team, feature, model, nanos, text in reversed(_newest(connection, period, only)):
        prompt = (team, feature, model, text)
        former = sums.get((team, feature), RepeatedPrompts())
        sums[team, feature] = former.plus(nanos or 0, is_repeated=prompt in seen)
        seen.add(prompt)
    return sums


def _newest(
    connection: Connection, period: tuple[int, int], only: SpendFilter
) -> Sequence[Sequence[Any]]:
    """Team, feature, model, cost and prompt of the newest calls whose prompt is kept."""
    calls, prompts = schema.calls.c, schema.prompts.c
    # Bounded before it is filtered: a team of few calls must not have all others' read.
    newest = (
        select(schema.calls)
        .where(calls.call_id >= id_floor(period[0]), calls.call_id < id_floor(period[1]))
        .order_by(calls.call_id.desc())
        .limit(_MAX_CALLS)
        .subquery("newest")
        .c
    )
    query = (
        select(newest.team, newest.feature, newest.model, newest.cost_nanos, prompts.text)
        .join(schema.prompts, prompts.call_id == newest.call_id)
        .where(newest.final == 1, *filter_conditions(newest, only))
        .order_by(newest.call_id.desc())
        .limit(MAX_PROMPTS)
    )
    return connection.execute(query).all()
