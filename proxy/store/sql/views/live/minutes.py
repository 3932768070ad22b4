"""The window that ends now: calls of the last minutes or hours, read one by one up to a bound."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Select, case, func, select

from dashboards.reports import SpendFilter, TagPart
from dashboards.views.costs import NO_VALUE, value_label
from dashboards.views.minutes import (
    WINDOW_SECONDS,
    EndedCall,
    ErrorCount,
    MinutesDimension,
    MinutesView,
    MinutesWindow,
    SlowCall,
    ValueTotals,
    call_totals,
    calls_by_value,
    first_token_phases,
    longest_phase,
    slowest_call,
    totals_by_bucket,
)
from proxy.records.receipt import IDLE_TEAM, Outcome, answering_model
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.measured_calls import FAILED, error_of
from proxy.store.sql.rollups.spend_filters import part_column
from proxy.store.sql.timestamps import micros, seconds
from proxy.store.sql.views.calls import CallSearch, search_conditions
from proxy.store.sql.views.live.failures import failing_routes
from proxy.store.sql.views.readers import Readers

#: Calls and rows of a window that ends now.
_MAX_WINDOW_CALLS: Final = 50_000
_MAX_WINDOW_ROWS: Final = 50
_MAX_ERROR_CODES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MinutesQuestion:
    """A question for a window that ends now.

    Attributes:
        now: Seconds since the epoch.
        sees_calls: True if single calls and words of upstreams may be shown.
        limit: Calls that are read, the newest.
    """

    window: MinutesWindow
    by: MinutesDimension | TagPart
    only: SpendFilter
    now: float
    sees_calls: bool = False
    limit: int = _MAX_WINDOW_CALLS


def minutes_view(readers: Readers, question: MinutesQuestion) -> MinutesView:
    """Calls of the last minutes or hours, read one by one up to a bound; blocks."""
    length, bucket_s = WINDOW_SECONDS[question.window]
    end = int(question.now) // bucket_s * bucket_s + bucket_s
    search = CallSearch(since=end - length, until=end, only=question.only)
    with read_transaction(readers.engine) as connection:
        query = _ended_query(search, question.by).limit(question.limit + 1)
        rows = connection.execute(query).all()
    if question.by == "model":
        answering = cache(answering_model)
        calls = [EndedCall._make((*row[:-2], answering(row[-1], row[-2]))) for row in rows]
    else:
        calls = [EndedCall._make(row) for row in rows]
    is_cut = len(calls) > question.limit
    since = _first_whole(seconds(calls[-1].started), bucket_s, end) if is_cut else end - length
    calls = [call for call in calls if call.started >= micros(since)]
    starts = list(range(since, end, bucket_s))
    names = readers.team_names() if question.by == "team" else {}
    groups = calls_by_value(calls)[:_MAX_WINDOW_ROWS]
    whole = CallSearch(since=since, until=end, only=question.only)
    with read_transaction(readers.engine) as connection:
        failing = failing_routes(connection, whole, has_words=question.sees_calls)
        slowest = _slowest_calls(connection, groups) if question.sees_calls else {}
    return MinutesView(
        window=question.window,
        by=question.by,
        since=since,
        bucket_s=bucket_s,
        is_cut=is_cut,
        starts=starts,
        buckets=totals_by_bucket(calls, starts, bucket_s),
        total=call_totals(calls),
        rows=[
            ValueTotals(
                value=value or NO_VALUE,
                name=value_label(value, names),
                totals=call_totals(group),
                slowest=slowest.get(value),
            )
            for value, group in groups
        ],
        errors=_most_common(call.error for call in calls),
        refusals=_most_common(call.refusal for call in calls),
        failing=failing,
    )


def _slowest_calls(
    connection: Connection, groups: Iterable[tuple[str, list[EndedCall]]]
) -> dict[str, SlowCall]:
    """The call of each value with the latest first token, and the phase that took the time."""
    slowest = {value: slowest_call(group) for value, group in groups}
    ids = sorted(call.call_id for call in slowest.values() if call is not None)
    calls = schema.calls.c
    query = (
        select(
            calls.call_id,
            calls.final,
            calls.duration,
            calls.ttft,
            calls.overhead,
            calls.queue,
            calls.prefill,
        )
        .where(calls.call_id.in_(ids))
        .order_by(calls.call_id, calls.attempt)
    )
    attempts: dict[str, list[Any]] = {}
    for row in connection.execute(query):
        attempts.setdefault(row.call_id, []).append(row)
    shown = {}
    for value, call in slowest.items():
        if call is None or call.ttft is None:
            continue
        *earlier, last = attempts[call.call_id]
        before = max((row.duration for row in earlier), default=0)
        phases = first_token_phases(last.ttft, before, last.overhead, last.queue, last.prefill)
        phase, took = longest_phase(phases)
        shown[value] = SlowCall(
            call_id=call.call_id, ttft=seconds(call.ttft), phase=phase, phase_s=seconds(took)
        )
    return shown


def _most_common(codes: Iterable[str]) -> list[ErrorCount]:
    counts = Counter(filter(None, codes)).most_common(_MAX_ERROR_CODES)
    return [ErrorCount(error=error, calls=count) for error, count in counts]


def _first_whole(oldest: float, bucket_s: int, end: int) -> int:
    """The first bucket of which all is read; in the last one, the first such second."""
    since = int(oldest) // bucket_s * bucket_s + bucket_s
    return since if since < end else min(int(oldest) + 1, end - 1)


def _ended_query(search: CallSearch, by: MinutesDimension | TagPart) -> Select[Any]:
    """Attempts of a period, newest first, as `EndedCall`; models as asked for, and the route."""
    calls = schema.calls.c
    is_end = calls.final == 1
    has_failed = calls.outcome.in_(sorted(FAILED))
    is_answered = is_end & (calls.outcome == Outcome.ANSWERED.value)
    error = error_of(calls)
    value = (
        [calls.model, func.coalesce(calls.route, "")] if by == "model" else [part_column(calls, by)]
    )
    return (
        select(
            calls.started,
            case((is_answered, calls.duration)),
            case((is_answered, calls.ttft)),
            case((is_end & has_failed, error), else_=""),
            case((is_end & (calls.outcome == Outcome.REFUSED.value), error), else_=""),
            calls.cost_nanos,
            calls.final,
            case((has_failed, 1), else_=0),
            calls.call_id,
            *value,
        )
        .where(
            calls.call_id >= id_floor(search.since),
            calls.call_id < id_floor(search.until),
            calls.team != IDLE_TEAM,
            *search_conditions(search),
        )
        .order_by(calls.call_id.desc())
    )
