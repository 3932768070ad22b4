"""The window that ends now: calls of the last minutes or hours, read one by one up to a bound."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    case,
    cast,
    func,
    literal,
    select,
)

from dashboards.reports import SpendFilter, TagPart
from dashboards.views.costs import NO_VALUE, value_label
from dashboards.views.minutes import (
    WINDOW_SECONDS,
    AttemptGroup,
    ErrorCount,
    MinutesDimension,
    MinutesView,
    MinutesWindow,
    SlowCall,
    ValueTotals,
    first_token_phases,
    groups_by_value,
    longest_phase,
    totals_by_bucket,
    window_totals,
)
from proxy.records.receipt import IDLE_TEAM, Outcome, answering_model
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.measured_calls import FAILED, error_of
from proxy.store.sql.rollups.spend_filters import part_column
from proxy.store.sql.timestamps import micros, seconds
from proxy.store.sql.views.calls import (
    CallSearch,
    newest_part,
    period_conditions,
    search_conditions,
)
from proxy.store.sql.views.live.failures import failing_routes
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.series import named_filters

#: Calls and rows of a window that ends now.
_MAX_WINDOW_CALLS: Final = 50_000
_MAX_WINDOW_ROWS: Final = 50
_MAX_ERROR_CODES: Final = 10
_IS_ANSWERED: Final = (schema.calls.c.final == 1) & (
    schema.calls.c.outcome == Outcome.ANSWERED.value
)
_answering_model: Final = cache(answering_model)


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
    """Calls of the last minutes or hours, summed up to a bound by bucket and value; blocks."""
    length, bucket_s = WINDOW_SECONDS[question.window]
    end = int(question.now) // bucket_s * bucket_s + bucket_s
    search = CallSearch(since=end - length, until=end, only=question.only)
    names = readers.team_names() if question.by == "team" else {}
    with read_transaction(readers.engine) as connection:
        oldest = _first_beyond(connection, search, question.limit)
        if oldest is not None:
            search = replace(search, since=_first_whole(oldest, bucket_s, end))
        starts = list(range(int(search.since), end, bucket_s))
        groups = _attempt_groups(connection, search, question.by, bucket_s)
        values = groups_by_value(groups)[:_MAX_WINDOW_ROWS]
        filter_names = named_filters(connection, question.only)
        failing = failing_routes(connection, search, has_words=question.sees_calls)
        slowest = (
            _slowest_calls(connection, search, question.by, values) if question.sees_calls else {}
        )
    return MinutesView(
        window=question.window,
        by=question.by,
        since=starts[0],
        bucket_s=bucket_s,
        is_cut=oldest is not None,
        starts=starts,
        buckets=totals_by_bucket(groups, len(starts)),
        total=window_totals(groups),
        rows=[
            ValueTotals(
                value=value or NO_VALUE,
                name=value_label(value, names),
                totals=window_totals(value_groups),
                slowest=slowest.get(value),
            )
            for value, value_groups in values
        ],
        errors=_most_common((group.code, group.errors) for group in groups),
        refusals=_most_common((group.code, group.refused) for group in groups),
        failing=failing,
        filter_names=filter_names,
    )


def _slowest_calls(
    connection: Connection,
    search: CallSearch,
    by: MinutesDimension | TagPart,
    values: Iterable[tuple[str, Sequence[AttemptGroup]]],
) -> dict[str, SlowCall]:
    """The call of each value with the latest first token, and the phase that took the time."""
    latest = {
        value: max(chain.from_iterable(group.first_tokens for group in groups), default=None)
        for value, groups in values
    }
    calls = schema.calls.c
    slow = (
        select(calls.call_id, calls.ttft, *_value_columns(by))
        .where(*_conditions(search), _IS_ANSWERED, calls.ttft.in_({*latest.values()} - {None}))
        .order_by(calls.call_id.desc())
    )
    ids: dict[str, str] = {}
    for row in connection.execute(slow):
        value = _value_of(row[2:])
        if latest.get(value) == row.ttft:
            ids.setdefault(value, row.call_id)
    query = (
        select(
            calls.call_id,
            calls.duration,
            calls.ttft,
            calls.overhead,
            calls.queue,
            calls.prefill,
        )
        .where(calls.call_id.in_(sorted(ids.values())))
        .order_by(calls.call_id, calls.attempt)
    )
    attempts: dict[str, list[Any]] = {}
    for row in connection.execute(query):
        attempts.setdefault(row.call_id, []).append(row)
    shown = {}
    for value, call_id in ids.items():
        *earlier, last = attempts[call_id]
        before = max((row.duration for row in earlier), default=0)
        phases = first_token_phases(last.ttft, before, last.overhead, last.queue, last.prefill)
        phase, took = longest_phase(phases)
        shown[value] = SlowCall(
            call_id=call_id, ttft=seconds(last.ttft), phase=phase, phase_s=seconds(took)
        )
    return shown


def _most_common(codes: Iterable[tuple[str, int]]) -> list[ErrorCount]:
    counts = Counter[str]()
    for code, calls in codes:
        counts[code] += calls
    common = counts.most_common(_MAX_ERROR_CODES)
    return [ErrorCount(error=code, calls=calls) for code, calls in common if calls]


def _first_beyond(connection: Connection, search: CallSearch, limit: int) -> float | None:
    """The arrival of the newest attempt that is not read any more; None where all are."""
    if newest_part(connection, search, limit) is search:  # read from the index alone
        return None
    calls = schema.calls.c
    query = select(calls.started).where(*_conditions(search)).order_by(calls.call_id.desc())
    started = connection.execute(query.offset(limit).limit(1)).scalar()
    return None if started is None else seconds(started)


def _first_whole(oldest: float, bucket_s: int, end: int) -> int:
    """The first bucket of which all is read; in the last one, the first such second."""
    since = int(oldest) // bucket_s * bucket_s + bucket_s
    return since if since < end else min(int(oldest) + 1, end - 1)


def _attempt_groups(
    connection: Connection, search: CallSearch, by: MinutesDimension | TagPart, bucket_s: int
) -> list[AttemptGroup]:
    """Attempts of a period, summed in the database, with the times of each answered call."""
    calls = schema.calls.c
    is_end, has_failed = calls.final == 1, calls.outcome.in_(sorted(FAILED))
    is_refused = is_end & (calls.outcome == Outcome.REFUSED.value)
    has_code = is_refused | (is_end & has_failed)
    bucket = (calls.started - micros(search.since)) // micros(bucket_s)
    keys = {
        "bucket": bucket,
        "code": case((has_code, error_of(calls)), else_=""),
        **{f"value{place}": column for place, column in enumerate(_value_columns(by))},
    }
    sums = {
        "ends": calls.final,
        "errors": case((is_end & has_failed, 1), else_=0),
        "refused": case((is_refused, 1), else_=0),
        "attempts": literal(1),
        "failed": case((has_failed, 1), else_=0),
        "cost": func.coalesce(calls.cost_nanos, 0),
    }
    times = {
        "durations": case((_IS_ANSWERED, calls.duration)),
        "first_tokens": case((_IS_ANSWERED, calls.ttft)),
    }
    columns = keys | sums | times
    rows = (
        select(*(column.label(name) for name, column in columns.items()))
        .where(*_conditions(search))
        .subquery("attempts_read")
        .c
    )
    query = select(
        *(rows[name] for name in keys),
        *(cast(func.sum(rows[name]), BigInteger) for name in sums),
        *(func.aggregate_strings(cast(rows[name], Text), ",") for name in times),
    ).group_by(*(rows[name] for name in keys))
    count = len(keys)
    return [
        AttemptGroup(
            row[0], _value_of(row[2:count]), row[1], *row[count:-2], *map(_numbers, row[-2:])
        )
        for row in connection.execute(query)
    ]


def _numbers(text: str | None) -> list[int]:
    return [*map(int, text.split(","))] if text else []


def _value_columns(by: MinutesDimension | TagPart) -> list[ColumnElement[str]]:
    """The columns that tell a value: of a model the one asked for, and the route."""
    calls = schema.calls.c
    if by == "model":
        return [calls.model, func.coalesce(calls.route, "")]
    return [part_column(calls, by)]


def _value_of(columns: Sequence[str]) -> str:
    """The value that these columns tell; the model is the one that answered."""
    return columns[0] if len(columns) == 1 else _answering_model(columns[1], columns[0])


def _conditions(search: CallSearch) -> list[ColumnElement[bool]]:
    calls = schema.calls.c
    has_begun = calls.started < micros(search.until)  # also retries of calls that came before
    is_call = calls.team != IDLE_TEAM
    return [*period_conditions(search), has_begun, is_call, *search_conditions(search)]
