"""Counts an alert's calls, and their errors, in one question."""

from dataclasses import dataclass

from dashboards.views.alerts import AlertCalls
from proxy.store.sql.database import read_transaction
from proxy.store.sql.views.calls import MAX_COUNTED, CallSearch, calls_count, newest_part
from proxy.store.sql.views.live.failures import failure_words
from proxy.store.sql.views.readers import Readers


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
            count=calls_count(connection, newest),
            among=None if newest is counted else attempts,
            failures=()
            if failed is None
            else failure_words(
                connection, newest_part(connection, failed, attempts), question.route
            ),
        )
