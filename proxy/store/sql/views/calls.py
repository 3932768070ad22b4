"""Pages of calls, newest first, and the window that ends now; what each reads is bounded."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, case, func, select

from dashboards.reports import ALL_CALLS, SpendFilter, TagPart
from dashboards.views.calls import CallRow, CallsView
from dashboards.views.costs import NO_VALUE, value_label
from dashboards.views.minutes import (
    WINDOW_SECONDS,
    EndedCall,
    ErrorCount,
    MinutesDimension,
    MinutesView,
    MinutesWindow,
    ValueTotals,
    call_totals,
    totals_by_bucket,
    totals_by_value,
)
from proxy.records.receipt import IDLE_TEAM, Outcome, Receipt, answering_model
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.receipt_columns import receipt_from_row
from proxy.store.sql.rollups.spend_filters import part_column
from proxy.store.sql.timestamps import micros, seconds
from proxy.store.sql.views.readers import Readers

#: Calls that one step looks at, and steps of a page.
_CALLS_PER_STEP: Final = 5_000
_MAX_STEPS: Final = 4
#: Calls and rows of a window that ends now.
_MAX_WINDOW_CALLS: Final = 50_000
_MAX_WINDOW_ROWS: Final = 50
_MAX_ERROR_CODES: Final = 10
_ERRORS: Final = frozenset({Outcome.FAILED.value, Outcome.BROKEN.value})
#: Fields of a row that are the receipt's; ``model`` is the one that answered.
_SAME_FIELDS: Final = {field.name for field in fields(CallRow)} & {*Receipt.__struct_fields__} - {
    "model",
    "cost_nanos",
    "served_by",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSearch:
    """Calls that are wanted.

    Attributes:
        since: They arrived at or after it, in seconds since the epoch.
        until: They arrived before it.
        after: Id of the call before the page; "" for the first page.
        miss: Their reason for a miss; "" for any, ``*`` for any miss.
        is_rerouted: True for those that another route answered.
        min_cost_nanos: They cost at least as much; 0 for any.
        is_unpriced: True for those that used tokens or were answered, at an unknown price.
        error: Their error's code; "" for any.
        served_by: Part of the fast path that served them; "" for any.
        min_duration: They took at least so many seconds; 0 for any.
        min_ttft: Their first content byte came after at least so many seconds; 0 for any.
    """

    since: float
    until: float
    after: str = ""
    limit: int = 50
    only: SpendFilter = field(default_factory=lambda: ALL_CALLS)
    outcome: str = ""
    miss: str = ""
    is_rerouted: bool = False
    min_cost_nanos: int = 0
    is_unpriced: bool = False
    error: str = ""
    served_by: str = ""
    min_duration: float = 0.0
    min_ttft: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MinutesQuestion:
    """A question for a window that ends now.

    Attributes:
        now: Seconds since the epoch.
        limit: Calls that are read, the newest.
    """

    window: MinutesWindow
    by: MinutesDimension | TagPart
    only: SpendFilter
    now: float
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
            ValueTotals(value=value or NO_VALUE, name=value_label(value, names), totals=totals)
            for value, totals in totals_by_value(calls)[:_MAX_WINDOW_ROWS]
        ],
        errors=_most_common(call.error for call in calls),
        refusals=_most_common(call.refusal for call in calls),
    )


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
    is_answered = is_end & (calls.outcome == Outcome.ANSWERED.value)
    error = func.coalesce(func.nullif(calls.error, ""), calls.outcome)
    value = (
        [calls.model, func.coalesce(calls.route, "")] if by == "model" else [part_column(calls, by)]
    )
    return (
        select(
            calls.started,
            case((is_answered, calls.duration)),
            case((is_answered, calls.ttft)),
            case((is_end & calls.outcome.in_(sorted(_ERRORS)), error), else_=""),
            case((is_end & (calls.outcome == Outcome.REFUSED.value), error), else_=""),
            calls.cost_nanos,
            calls.final,
            *value,
        )
        .where(
            calls.call_id >= id_floor(search.since),
            calls.call_id < id_floor(search.until),
            calls.team != IDLE_TEAM,
            *_conditions(search),
        )
        .order_by(calls.call_id.desc())
    )


def calls_view(readers: Readers, search: CallSearch) -> CallsView:
    """A page of calls; it may have few or none although there are more to look at; blocks."""
    names, rows = readers.team_names(), list[CallRow]()
    last, oldest = search.after or id_floor(search.until), None
    with read_transaction(readers.engine) as connection:
        for _ in range(_MAX_STEPS):
            step = _step_end(connection, search, last)
            if step is None:
                return CallsView(calls=rows, next=None, searched_from=oldest)
            query = _page_query(search, last, step.call_id).limit(search.limit - len(rows))
            rows += [call_row(receipt_from_row(row), names) for row in connection.execute(query)]
            last, oldest = step.call_id, seconds(step.started)
            if len(rows) >= search.limit:
                last, oldest = rows[-1].call_id, rows[-1].started
                break
    return CallsView(calls=rows, next=last, searched_from=oldest)


def call_row(receipt: Receipt, names: Mapping[str, str]) -> CallRow:
    """The end of a call."""
    usage = receipt.usage
    return CallRow(
        **{name: getattr(receipt, name) for name in _SAME_FIELDS},
        team_name=names.get(receipt.team, receipt.team),
        key=receipt.key_id,
        requested=receipt.model,
        model=answering_model(receipt.route, receipt.model),
        attempts=receipt.attempt + 1,
        cost_nanos=receipt.spent_nanos,
        served_by=receipt.served_by.value,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        cache_read_tokens=None if usage is None else usage.cache_read,
        generated_tokens=None if usage is None else usage.generated_tokens,
    )


def _step_end(connection: Connection, search: CallSearch, last: str) -> Row[Any, Any] | None:
    """The oldest of the calls that come next; None where there are no more."""
    calls = schema.calls.c
    step = (
        select(calls.call_id, calls.started)
        .where(calls.call_id < last, calls.call_id >= id_floor(search.since))
        .order_by(calls.call_id.desc())
        .limit(_CALLS_PER_STEP)
        .subquery("step")
        .c
    )
    return connection.execute(
        select(step.call_id, step.started).order_by(step.call_id).limit(1)
    ).first()


def _page_query(search: CallSearch, last: str, first: str) -> Select[Any]:
    calls = schema.calls.c
    return (
        select(schema.calls)
        .where(
            calls.call_id < last,
            calls.call_id >= first,
            calls.final == 1,
            calls.team != IDLE_TEAM,
            *_conditions(search),
        )
        .order_by(calls.call_id.desc())
    )


def _conditions(search: CallSearch) -> list[ColumnElement[bool]]:
    calls, teams = schema.calls.c, search.only.counted_teams
    conditions: list[ColumnElement[bool]] = [] if teams is None else [calls.team.in_(sorted(teams))]
    conditions += [
        part_column(calls, part).in_(sorted(values))
        for part, values in search.only.values.items()
        if part != "team"
    ]
    if search.outcome:
        conditions.append(calls.outcome == search.outcome)
    if search.miss:
        conditions.append(
            calls.miss.is_not(None) if search.miss == "*" else calls.miss == search.miss
        )
    if search.is_rerouted:
        conditions.append(calls.reroute_reason.is_not(None))
    if search.is_unpriced:
        is_used = calls.input.is_not(None) | (calls.outcome == Outcome.ANSWERED.value)
        conditions += [calls.cost_nanos.is_(None), is_used]
    equal = {calls.error: search.error, calls.served_by: search.served_by}
    conditions += [stored == value for stored, value in equal.items() if value]
    least = {
        calls.cost_nanos: search.min_cost_nanos,
        calls.duration: micros(search.min_duration),
        calls.ttft: micros(search.min_ttft),
    }
    conditions += [stored >= value for stored, value in least.items() if value]
    return conditions
