"""Pages of calls, newest first or sorted; what each reads is bounded."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from operator import add
from time import monotonic
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select

from dashboards.reports import ALL_CALLS, SpendFilter
from dashboards.views.calls import CallRow, CallSort, CallsView
from proxy.records.receipt import (
    BUDGET_REFUSAL,
    IDLE_TEAM,
    Outcome,
    Receipt,
    answering_model,
)
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor, id_time
from proxy.store.sql.ledger.measured_calls import (
    FAILED,
    MeasuredCalls,
    cost_of_attempts,
    error_of,
    is_unpriced,
    measured_conditions,
    met_conditions,
)
from proxy.store.sql.receipt_columns import receipt_from_row
from proxy.store.sql.rollups.spend_filters import part_column
from proxy.store.sql.timestamps import micros, seconds
from proxy.store.sql.views.readers import Readers
from slo.usage import Usage


def _bucket_sum(total: Callable[[Usage], int]) -> ColumnElement[Any]:
    """The tokens of the buckets that a total of a usage has; null where a call used none."""
    buckets = [name for name in schema.BUCKETS if total(Usage(**{name: 1}))]
    return reduce(add, (schema.calls.c[name] for name in buckets))


#: Attempts that each step of a page looks at; most pages are full after the first.
_STEPS: Final = (200, 4_800, 5_000, 5_000, 5_000)
#: Attempts among which calls are sorted, the newest.
_MAX_SORTED: Final = 50_000
#: The same where a text is looked for, few at first as prompts may have megabytes, and the seconds
#: after which no step begins.
_TEXT_STEPS: Final = (20, 80, 150, 250, *(500,) * 39)
_TEXT_SECONDS: Final = 1.5
#: Seconds from one moment that ids tell apart to the next.
_NEXT_ID_S: Final = 0.001
#: Ids that providers give to an attempt and to its answer.
_PROVIDER_IDS: Final = (schema.calls.c.upstream_request_id, schema.calls.c.upstream_id)
_SORTED_BY: Final[Mapping[CallSort, ColumnElement[Any]]] = {
    "cost": cost_of_attempts(),
    "prompt": _bucket_sum(lambda usage: usage.prompt_tokens),
    "answer": _bucket_sum(lambda usage: usage.generated_tokens),
    "ttft": schema.calls.c.ttft,
    "duration": schema.calls.c.duration,
}
#: The same values of a row.
_ROW_FIELDS: Final[Mapping[CallSort, str]] = {
    "cost": "cost_nanos",
    "prompt": "prompt_tokens",
    "answer": "generated_tokens",
    "ttft": "ttft",
    "duration": "duration",
}
ANY_ERROR: Final = "error"
"""The outcome asked for where calls that failed and those that broke off are wanted."""
MAX_COUNTED: Final = 50_000
"""Attempts among which calls are counted, the newest."""
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
        outcome: Their outcome; ``error`` for those that failed or broke off, "" for any.
        min_cost_nanos: All their attempts cost at least as much; 0 for any.
        is_unpriced: True for those of which an attempt's price is unknown.
        status: The HTTP status that one of their attempts ended in; 0 for any.
        error: The code of an error that one of their attempts met; "" for any.
        failed_route: That attempt failed on this route; "" for any.
        ended_with: The code of the error that they ended with; "" for any.
        served_by: Part of the fast path that served them; "" for any.
        refused_by: Name of the budget that refused them; "" for any.
        min_duration: They took at least so many seconds; 0 for any.
        min_ttft: Their first content byte came after at least so many seconds; 0 for any.
        sort: Their order; the newest first, or those with most of it.
        id_start: The beginning of their ids; "" for any.
        text: Stands in the prompt kept for them, in any case of ASCII letters, or is the id that a
            provider gave to an attempt or an answer; "" for any.
        measured: Calls that an alert counted; None for any.
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
    status: int = 0
    error: str = ""
    failed_route: str = ""
    ended_with: str = ""
    served_by: str = ""
    refused_by: str = ""
    min_duration: float = 0.0
    min_ttft: float = 0.0
    sort: CallSort = "time"
    id_start: str = ""
    text: str = ""
    measured: MeasuredCalls | None = None


def calls_view(readers: Readers, search: CallSearch) -> CallsView:
    """A page of calls; it may have few or none although there are more to look at; blocks."""
    names = readers.team_names()
    with read_transaction(readers.engine) as connection:
        if search.id_start:
            calls = _read_page(connection, search, f"{search.id_start}g", search.id_start, names)
            return CallsView(calls=calls, next=None, searched_from=None)
        if search.sort != "time":
            return _sorted_calls(connection, search, names)
        return _newest_calls(connection, search, names)


def newest_part(
    connection: Connection, search: CallSearch, attempts: int = MAX_COUNTED
) -> CallSearch:
    """The search among the newest attempts of its period; itself where these are all."""
    beyond = (
        select(schema.calls.c.call_id)
        .where(*period_conditions(search))
        .order_by(schema.calls.c.call_id.desc())
        .offset(attempts)
        .limit(1)
    )
    call_id = connection.execute(beyond).scalar()
    return search if call_id is None else replace(search, since=id_time(call_id) + _NEXT_ID_S)


def calls_count(connection: Connection, search: CallSearch) -> int:
    """The number of calls that a search finds."""
    calls = schema.calls.c
    is_call = (calls.final == 1) & (calls.team != IDLE_TEAM)
    count = select(func.count()).where(
        *period_conditions(search), is_call, *search_conditions(search)
    )
    return connection.execute(count).scalar_one()


def period_conditions(search: CallSearch) -> list[ColumnElement[bool]]:
    """The conditions of a search's period; ids sort by arrival."""
    call_id = schema.calls.c.call_id
    return [call_id >= id_floor(search.since), call_id < id_floor(search.until)]


def _newest_calls(
    connection: Connection, search: CallSearch, names: Mapping[str, str]
) -> CallsView:
    """Calls in steps from the newest back, until the page is full, the bound, or the deadline."""
    rows, last, oldest = list[CallRow](), search.after or id_floor(search.until), None
    steps, prompts = (_TEXT_STEPS, 0) if search.text else (_STEPS, None)
    deadline = monotonic() + _TEXT_SECONDS
    for size in steps:
        step = _step_end(connection, search, last, size)
        if step is None:
            return CallsView(calls=rows, next=None, searched_from=oldest, searched_prompts=prompts)
        rows += _read_page(connection, search, last, step.call_id, names, search.limit - len(rows))
        is_full = len(rows) >= search.limit
        first, oldest = (
            (rows[-1].call_id, rows[-1].started) if is_full else (step[0], seconds(step.started))
        )
        if prompts is not None:
            prompts += _prompt_count(connection, search, last, first)
        last = first
        if is_full or (search.text and monotonic() > deadline):
            break
    return CallsView(
        calls=rows, next=last, searched_from=oldest, is_cut=True, searched_prompts=prompts
    )


def _sorted_calls(
    connection: Connection, search: CallSearch, names: Mapping[str, str]
) -> CallsView:
    """Those of the newest calls that have most of what they are sorted by."""
    rows, last, oldest, prompts = list[CallRow](), id_floor(search.until), None, 0
    deadline = monotonic() + _TEXT_SECONDS
    for size in _TEXT_STEPS if search.text else (_MAX_SORTED,):
        step = _step_end(connection, search, last, size)
        if step is None:
            break
        page = _read_page(connection, search, last, step.call_id, names)
        rows = _most_first([*rows, *page], search.sort)[: search.limit]
        if search.text:
            prompts += _prompt_count(connection, search, last, step.call_id)
        last, oldest = step.call_id, seconds(step.started)
        if monotonic() > deadline:
            break
    return CallsView(
        calls=rows,
        next=None,
        searched_from=oldest,
        is_cut=_step_end(connection, search, last, 1) is not None,
        searched_prompts=prompts if search.text else None,
    )


def _most_first(rows: Sequence[CallRow], sort: CallSort) -> list[CallRow]:
    """Rows of pages that are sorted, in the order of ``_SORTED_BY``; unknown values come last."""

    def key(row: CallRow) -> tuple[bool, float]:
        value = getattr(row, _ROW_FIELDS[sort])
        return value is None, -(value or 0)

    return sorted(rows, key=key)


def call_row(receipt: Receipt, cost_nanos: int | None, names: Mapping[str, str]) -> CallRow:
    """The end of a call, with the cost of all its attempts."""
    usage = receipt.usage
    return CallRow(
        **{name: getattr(receipt, name) for name in _SAME_FIELDS},
        team_name=names.get(receipt.team, receipt.team),
        key=receipt.key_id,
        requested=receipt.model,
        model=answering_model(receipt.route, receipt.model),
        attempts=receipt.attempt + 1,
        cost_nanos=cost_nanos,
        served_by=receipt.served_by.value,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        cache_read_tokens=None if usage is None else usage.cache_read,
        generated_tokens=None if usage is None else usage.generated_tokens,
    )


def _step_end(
    connection: Connection, search: CallSearch, last: str, size: int
) -> Row[Any, Any] | None:
    """The oldest of the attempts that come next; None where there are no more."""
    calls = schema.calls.c
    step = (
        select(calls.call_id, calls.started)
        .where(calls.call_id < last, calls.call_id >= id_floor(search.since))
        .order_by(calls.call_id.desc())
        .limit(size)
        .subquery("step")
        .c
    )
    return connection.execute(
        select(step.call_id, step.started).order_by(step.call_id).limit(1)
    ).first()


def _read_page(
    connection: Connection,
    search: CallSearch,
    last: str,
    first: str,
    names: Mapping[str, str],
    limit: int | None = None,
) -> list[CallRow]:
    """The calls between two ids that a search wants, in its order."""
    calls, prompts = schema.calls, schema.prompts
    is_between = (calls.c.call_id < last) & (calls.c.call_id >= first)
    query = select(calls, cost_of_attempts()).where(
        is_between, calls.c.final == 1, calls.c.team != IDLE_TEAM, *search_conditions(search)
    )
    if search.text:
        is_named = calls.c.call_id.in_(
            select(calls.c.call_id).where(
                is_between, or_(*(column == search.text for column in _PROVIDER_IDS))
            )
        )
        query = query.outerjoin(prompts, prompts.c.call_id == calls.c.call_id).where(
            is_named | _holds_text(connection, search.text)
        )
    if search.sort != "time":
        query = query.order_by(_SORTED_BY[search.sort].desc().nulls_last())
    query = query.order_by(calls.c.call_id.desc()).limit(search.limit if limit is None else limit)
    return [
        call_row(receipt_from_row(row[:-1]), row[-1], names) for row in connection.execute(query)
    ]


def _holds_text(connection: Connection, text: str) -> ColumnElement[bool]:
    """True for a kept prompt with a text; bodies write it as JSON does, with or without ASCII."""
    forms = {text, *(json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))}
    escaped = (re.sub(r"([%_/])", r"/\1", form) for form in sorted(forms))
    prompt, is_sqlite = schema.prompts.c.text, connection.dialect.name == "sqlite"
    match = prompt.like if is_sqlite else prompt.ilike  # SQLite's LIKE takes any case
    return or_(*(match(f"%{form}%", escape="/") for form in escaped))


def _prompt_count(connection: Connection, search: CallSearch, last: str, first: str) -> int:
    """The number of kept prompts of the calls between two ids that the filters let through."""
    calls, prompts = schema.calls, schema.prompts
    query = (
        select(func.count())
        .select_from(prompts.join(calls, calls.c.call_id == prompts.c.call_id))
        .where(
            prompts.c.call_id < last,
            prompts.c.call_id >= first,
            calls.c.final == 1,
            *search_conditions(search),
        )
    )
    return connection.execute(query).scalar_one()


def search_conditions(search: CallSearch) -> list[ColumnElement[bool]]:
    """The conditions of a search on last attempts of calls, besides the period."""
    calls, teams = schema.calls.c, search.only.counted_teams
    conditions: list[ColumnElement[bool]] = [] if teams is None else [calls.team.in_(sorted(teams))]
    conditions += [
        part_column(calls, part).in_(sorted(values))
        for part, values in search.only.values.items()
        if part != "team"
    ]
    conditions += _end_conditions(search)
    conditions += met_conditions(search.status, search.error, search.failed_route)
    if search.miss:
        conditions.append(
            calls.miss.is_not(None) if search.miss == "*" else calls.miss == search.miss
        )
    if search.is_rerouted:
        conditions.append(calls.reroute_reason.is_not(None))
    if search.is_unpriced:
        conditions.append(is_unpriced())
    if search.min_cost_nanos:
        conditions.append(cost_of_attempts() >= search.min_cost_nanos)
    least = {
        calls.duration: micros(search.min_duration),
        calls.ttft: micros(search.min_ttft),
    }
    conditions += [stored >= value for stored, value in least.items() if value]
    if search.measured is not None:
        conditions += measured_conditions(search.measured)
    return conditions


def _end_conditions(search: CallSearch) -> Iterator[ColumnElement[bool]]:
    """The conditions on how calls ended, and on what served them."""
    calls = schema.calls.c
    if search.outcome:
        outcomes = FAILED if search.outcome == ANY_ERROR else {search.outcome}
        yield calls.outcome.in_(sorted(outcomes))
    if search.ended_with:
        yield error_of(calls) == search.ended_with
    if search.served_by:
        yield calls.served_by == search.served_by
    if search.refused_by:
        yield calls.outcome == Outcome.REFUSED.value
        yield calls.notes.contains(BUDGET_REFUSAL.format(search.refused_by), autoescape=True)
