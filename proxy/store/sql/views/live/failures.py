"""Attempts that upstreams failed, by route, code and words, and the calls of an alert."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import ColumnElement, Connection, case, func, or_, select

from dashboards.views.alerts import AlertCalls
from dashboards.views.minutes import FAILING_GAP_S, FailedAttempt, FailureWords, RouteFailures
from proxy.records.receipt import IDLE_TEAM, Outcome, words_without_message
from proxy.store.sql import schema
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_time
from proxy.store.sql.ledger.measured_calls import FAILED
from proxy.store.sql.timestamps import micros
from proxy.store.sql.views.calls import (
    MAX_COUNTED,
    CallSearch,
    calls_count,
    newest_part,
    period_conditions,
    search_conditions,
)
from proxy.store.sql.views.readers import Readers

_MAX_ROUTES: Final = 5
#: Groups of failures by route, code and words, the most frequent.
_MAX_GROUPS: Final = 200
_MAX_WORDS: Final = 5
_CALLS: Final = schema.calls.c
_IS_FAILED: Final = _CALLS.outcome.in_(sorted(FAILED))


def failing_routes(
    connection: Connection, search: CallSearch, *, has_words: bool, most: int = _MAX_ROUTES
) -> list[RouteFailures]:
    """Routes with failed attempts in a period, those with most first; blocks.

    Args:
        has_words: True if the upstreams' own words may be shown.
        most: Routes that are wanted.
    """
    failed = func.sum(case((_IS_FAILED, 1), else_=0))
    last = func.max(case((_IS_FAILED, _CALLS.call_id)))
    answered = func.max(case((_CALLS.outcome == Outcome.ANSWERED.value, _CALLS.call_id)))
    query = (
        select(_CALLS.route, func.count(), failed, last, answered)
        .where(*_in_period(search), _CALLS.route != "")
        .group_by(_CALLS.route)
        .having(failed > 0)
        .order_by(failed.desc(), _CALLS.route)
        .limit(most)
    )
    routes = connection.execute(query).all()
    if not routes:
        return []
    names = [row[0] for row in routes]
    errors = _as_shown(_words(connection, search, names), search, has_words=has_words)
    first = _failing_since(connection, search, names)

    def attempt(call_id: str) -> FailedAttempt:
        return FailedAttempt(at=id_time(call_id), call_id=call_id if has_words else "")

    return [
        RouteFailures(
            route=route,
            attempts=attempts,
            failed=count,
            errors=[error for name, error in errors if name == route][:_MAX_WORDS],
            first=attempt(first[route]),
            began_earlier=id_time(first[route]) - search.since < FAILING_GAP_S,
            last=attempt(last_failure),
            answered=None if last_answer is None else id_time(last_answer),
        )
        for route, attempts, count, last_failure, last_answer in routes
    ]


def _failing_since(
    connection: Connection, search: CallSearch, routes: Sequence[str]
) -> dict[str, str]:
    """The call with which the newest failures of each route began, as ``RouteFailures.first``."""
    before = func.lag(_CALLS.started).over(partition_by=_CALLS.route, order_by=_CALLS.call_id)
    failures = (
        select(_CALLS.route, _CALLS.call_id, (_CALLS.started - before).label("gap"))
        .where(*_in_period(search), _IS_FAILED, _CALLS.route.in_(routes))
        .subquery("failures")
        .c
    )
    query = (
        select(failures.route, func.max(failures.call_id))
        .where(or_(failures.gap.is_(None), failures.gap > micros(FAILING_GAP_S)))
        .group_by(failures.route)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def failures_view(
    readers: Readers, search: CallSearch, *, has_words: bool, most: int
) -> list[RouteFailures]:
    """Routes with failed attempts among the newest of a period, as ``failing_routes``; blocks."""
    with read_transaction(readers.engine) as connection:
        newest = newest_part(connection, search)
        return failing_routes(connection, newest, has_words=has_words, most=most)


def failure_words(
    connection: Connection, search: CallSearch, route: str = ""
) -> list[FailureWords]:
    """The most frequent errors of the failed attempts of a search's calls.

    Args:
        route: Route whose attempts count; "" for the last of each call.
    """
    words = _words(connection, search, [route] if route else None)
    return [error for _, error in _as_shown(words, search)[:_MAX_WORDS]]


def _as_shown(
    words: Sequence[tuple[str, str, str, int]], search: CallSearch, *, has_words: bool = True
) -> list[tuple[str, FailureWords]]:
    """Errors by route, the most frequent first, with the words that may be shown.

    Messages may tell of the gateway's own account, so only who sees all teams reads them.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    for route, error, text, attempts in words:
        seen = text if search.only.teams is None else words_without_message(text)
        counts[route, error, seen if has_words else ""] += attempts
    return [
        (route, FailureWords(error=error, attempts=attempts, words=text))
        for (route, error, text), attempts in counts.most_common()
    ]


def _words(
    connection: Connection, search: CallSearch, routes: Sequence[str] | None
) -> Sequence[tuple[str, str, str, int]]:
    """Failed attempts by route, code and words, the most frequent first.

    Args:
        routes: Whose attempts count; None for the last attempts of calls.
    """
    count = func.count()
    of_routes = _CALLS.final == 1 if routes is None else _CALLS.route.in_(routes)
    error = func.coalesce(func.nullif(_CALLS.error, ""), _CALLS.outcome)
    words = func.coalesce(_CALLS.upstream_error, "")
    query = (
        select(_CALLS.route, error, words, count)
        .where(*_in_period(search), _IS_FAILED, of_routes)
        .group_by(_CALLS.route, error, words)
        .order_by(count.desc(), _CALLS.route)
        .limit(_MAX_GROUPS)
    )
    return connection.execute(query).all()


def _in_period(search: CallSearch) -> list[ColumnElement[bool]]:
    return [
        *period_conditions(search),
        _CALLS.team != IDLE_TEAM,
        *search_conditions(search),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCallsQuestion:
    """A question for an alert's calls.

    Attributes:
        counted: Search for the calls that were counted.
        failed: Search for the calls whose errors are asked for; None where none are.
        route: Route whose failed attempts count; "" for the last attempt of each call.
    """

    counted: CallSearch
    failed: CallSearch | None = None
    route: str = ""


def alert_calls(
    readers: Readers, question: AlertCallsQuestion, attempts: int = MAX_COUNTED
) -> AlertCalls:
    """The number of an alert's calls and their most frequent errors; blocks.

    An alert may be about a month, so that only the newest attempts of its time are read.
    """
    counted, failed = question.counted, question.failed
    with read_transaction(readers.engine) as connection:
        newest = newest_part(connection, counted, attempts)
        return AlertCalls(
            route=_route_failures(connection, failed, question.route),
            count=calls_count(connection, newest),
            among=None if newest is counted else attempts,
            failures=()
            if failed is None
            else failure_words(
                connection, newest_part(connection, failed, attempts), question.route
            ),
        )


def _route_failures(
    connection: Connection, failed: CallSearch | None, route: str
) -> RouteFailures | None:
    """Failures of one route in the time of a search; None without any."""
    if failed is None or not route:
        return None
    only = replace(failed.only, values={"route": frozenset({route})})
    search = newest_part(connection, CallSearch(since=failed.since, until=failed.until, only=only))
    return next(iter(failing_routes(connection, search, has_words=True)), None)
