"""Calls that budgets had no room for, among the newest of their windows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import select

from dashboards.board import BudgetCounter, BudgetRefusals
from dashboards.views.alerts import budget_filters
from dashboards.views.costs import NO_VALUE
from proxy.records.receipt import BUDGET_REFUSAL, Outcome
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_time
from proxy.store.sql.rollups.spend_filters import part_column
from proxy.store.sql.views.calls import MAX_COUNTED, CallSearch, newest_part, period_conditions
from proxy.store.sql.views.readers import Readers

_BUDGET: Final = re.compile(BUDGET_REFUSAL.format("([^`]+)"))
_PARTS: Final = ("team", "key", "feature", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalsQuestion:
    """A question for the refused calls of counters.

    Attributes:
        counters: Counters in their current windows.
        teams: Ids of the teams whose calls count; None for all.
    """

    counters: Sequence[BudgetCounter]
    teams: frozenset[str] | None
    now: float


class _RefusedCall(NamedTuple):
    """A refused call: its arrival, its budget, and the values that counters are told apart by."""

    at: float
    budget: str
    parts: Mapping[str, str]


def budget_refusals(
    readers: Readers, question: RefusalsQuestion, attempts: int = MAX_COUNTED
) -> list[BudgetRefusals | None]:
    """The refused calls of each counter, None without any; blocks.

    Args:
        attempts: Number of the newest attempts that are looked at.
    """
    since = min((counter.since for counter in question.counters), default=question.now)
    search = CallSearch(since=since, until=question.now + 1)
    calls = schema.calls.c
    names = {name: team for team, name in readers.team_names().items()}
    with read_transaction(readers.engine) as connection:
        newest = newest_part(connection, search, attempts)
        query = select(
            calls.call_id, calls.notes, *(part_column(calls, part) for part in _PARTS)
        ).where(
            *period_conditions(newest),
            calls.final == 1,
            calls.outcome == Outcome.REFUSED.value,
            calls.notes.contains(BUDGET_REFUSAL.partition("{")[0]),
        )
        rows = connection.execute(query).all()
    refused = [
        _RefusedCall(id_time(call_id), found[1], _named_parts(parts))
        for call_id, notes, *parts in rows
        if (found := _BUDGET.search(notes))
        and (question.teams is None or parts[0] in question.teams)
    ]
    return [_of_counter(counter, refused, names) for counter in question.counters]


def _named_parts(values: Sequence[str]) -> dict[str, str]:
    """The values of a call's parts, as filters name them."""
    return {part: value or NO_VALUE for part, value in zip(_PARTS, values, strict=True)}


def _of_counter(
    counter: BudgetCounter, refused: Iterable[_RefusedCall], names: Mapping[str, str]
) -> BudgetRefusals | None:
    """The refused calls of a counter, whose subject the page of calls can filter by."""
    filters = budget_filters(counter.scope, counter.whose, names)
    times = [
        call.at
        for call in refused
        if call.budget == counter.budget
        and call.at >= counter.since
        and filters.items() <= call.parts.items()
    ]
    if not times or (not filters and counter.scope != "organization"):
        return None
    return BudgetRefusals(
        count=len(times),
        first=min(times),
        last=max(times),
        calls={**filters, "refused_by": counter.budget},
    )
