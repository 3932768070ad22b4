"""Failed attempts by route and code, in the upstreams' own words."""

from typing import Any

from sqlalchemy import Engine

from dashboards.reports import SpendFilter
from dashboards.views.minutes import FailureWords, RouteFailures
from proxy.records.receipt import Outcome, Receipt
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.measured_calls import MeasuredCalls
from proxy.store.sql.views.calls import CallSearch
from proxy.store.sql.views.live.failures import failing_routes, failure_words
from tests.fakes.receipts import START, a_receipt

LIMITED = "429 rate_limit_exceeded: 30 requests a minute"
SEARCH = CallSearch(since=START - 10, until=START + 1_000)


def attempt(n: int, **fields: Any) -> Receipt:
    call_id = f"{id_floor(START + n)[:-6]}{n:06x}"
    values = {"route": "lab/big", "duration": 1.0, "started": START + n}
    return a_receipt(n, call_id=call_id, **(values | fields))


def failure(n: int, **fields: Any) -> Receipt:
    values = {"outcome": Outcome.FAILED, "error": "upstream_rate_limited", "status": 429}
    return attempt(n, **(values | {"upstream_error": LIMITED} | fields))


ATTEMPTS = [
    failure(1, final=False),
    attempt(1, attempt=1, route="lab/small"),
    failure(2),
    failure(3, error="upstream_timeout", upstream_error=""),
    attempt(4),
]


def test_a_failing_route_is_named_although_another_route_answered(engine: Engine) -> None:
    inserter(engine)(ATTEMPTS)
    with read_transaction(engine) as connection:
        shown = failing_routes(connection, SEARCH, has_words=True)
        hidden = failing_routes(connection, SEARCH, has_words=False)

    limited = FailureWords(error="upstream_rate_limited", attempts=2, words=LIMITED)
    timeout = FailureWords(error="upstream_timeout", attempts=1)
    (route,) = shown
    assert (route.attempts, route.failed, route.errors) == (4, 3, [limited, timeout])
    assert [error.words for error in hidden[0].errors] == ["", ""]
    assert [error.attempts for error in hidden[0].errors] == [2, 1]


def route_failures(engine: Engine, *attempts: Receipt) -> RouteFailures:
    inserter(engine)(attempts)
    with read_transaction(engine) as connection:
        (route,) = failing_routes(connection, SEARCH, has_words=True)
    return route


def test_a_route_fails_since_its_first_failure_although_it_answers_between(engine: Engine) -> None:
    failures = [failure(n) for n in range(310, 330, 2)]
    route = route_failures(engine, *failures, *(attempt(n) for n in range(301, 332, 2)))

    assert (route.first.at - START, route.last.at - START) == (310, 328)
    assert route.answered == START + 331
    assert not route.began_earlier
    assert route.state(START + 335) == "fails in part"


def test_failures_before_a_gap_of_over_five_minutes_are_another_failing(engine: Engine) -> None:
    assert route_failures(engine, *map(failure, (5, 306, 500, 800))).first.at == START + 306


def test_a_route_that_has_not_failed_for_five_minutes_fails_no_more(engine: Engine) -> None:
    route = route_failures(engine, failure(1), attempt(2))

    assert [route.state(START + after) for after in (301, 302)] == ["fails in part", "failed"]


def test_failing_at_the_beginning_of_the_time_may_have_begun_earlier(engine: Engine) -> None:
    route = route_failures(engine, failure(1), failure(2))

    assert route.began_earlier
    assert (route.answered, route.state(START + 3)) == (None, "fails")


def test_failures_lead_to_their_calls_for_who_sees_calls_alone(engine: Engine) -> None:
    inserter(engine)([failure(1)])
    with read_transaction(engine) as connection:
        ids = [
            failing_routes(connection, SEARCH, has_words=has_words)[0].first
            for has_words in (True, False)
        ]

    assert [bool(one.call_id) for one in ids] == [True, False]


def test_messages_of_upstreams_are_only_for_who_sees_all_teams(engine: Engine) -> None:
    words = ["it answered 429 quota 'of acme'", "it answered 429 quota 'of b'", "10.0.0.7 down"]
    failures = [failure(n, team="a", upstream_error=text) for n, text in enumerate(words)]
    inserter(engine)(failures)
    teams = SpendFilter(teams=frozenset({"a"}))
    own = CallSearch(since=START - 10, until=START + 1_000, only=teams)
    with read_transaction(engine) as connection:
        (route,) = failing_routes(connection, own, has_words=True)
        own_words, every = failure_words(connection, own), failure_words(connection, SEARCH)

    assert [(error.words, error.attempts) for error in route.errors] == [
        ("it answered 429 quota", 2),
        ("", 1),
    ]
    assert list(route.errors) == own_words
    assert {error.words for error in every} == {*words}


def test_words_of_an_alert_are_those_of_the_route_or_of_the_last_attempts(engine: Engine) -> None:
    inserter(engine)(ATTEMPTS)
    measured = MeasuredCalls(ended_from=START, ended_to=START + 3.5)
    of_route = CallSearch(
        since=START - 10, until=START + 1_000, measured=measured, failed_route="lab/big"
    )
    with read_transaction(engine) as connection:
        errors = failure_words(connection, of_route, "lab/big")
        last = failure_words(connection, SEARCH)

    assert errors == [FailureWords(error="upstream_rate_limited", attempts=2, words=LIMITED)]
    assert [(error.error, error.attempts) for error in last] == [
        ("upstream_rate_limited", 1),
        ("upstream_timeout", 1),
    ]


def test_without_failures_no_route_is_named(engine: Engine) -> None:
    inserter(engine)([attempt(1)])
    with read_transaction(engine) as connection:
        assert failing_routes(connection, SEARCH, has_words=True) == []
