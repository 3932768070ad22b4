"""An alert's calls and their errors, among the newest attempts of its time."""

from sqlalchemy import Engine

from dashboards.views.alerts import AlertCalls
from dashboards.views.minutes import FailureWords
from proxy.records.receipt import Outcome
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.calls import CallSearch
from proxy.store.sql.views.live.failures import AlertCallsQuestion, alert_calls
from proxy.store.sql.views.readers import Readers
from tests.fakes.receipts import START, a_receipt

EVERY = CallSearch(since=START - 10, until=START + 1_000)
FAILED = CallSearch(since=START - 10, until=START + 1_000, outcome="failed")


def keep_failures(engine: Engine, count: int) -> None:
    inserter(engine)(
        [
            a_receipt(
                n,
                call_id=f"{id_floor(START + n)[:-6]}{n:06x}",
                route="lab/big",
                outcome=Outcome.FAILED,
                error="late" if n < 2 else "limited",
                upstream_error="",
            )
            for n in range(count)
        ]
    )


def test_all_calls_of_an_alert_are_counted_with_their_errors(engine: Engine) -> None:
    keep_failures(engine, 5)
    question = AlertCallsQuestion(counted=EVERY, failed=FAILED)

    assert alert_calls(Readers(engine), question) == AlertCalls(
        count=5,
        failures=[
            FailureWords(error="limited", attempts=3),
            FailureWords(error="late", attempts=2),
        ],
    )
    assert alert_calls(Readers(engine), AlertCallsQuestion(counted=EVERY)).failures == ()


def test_of_more_attempts_the_newest_alone_are_read(engine: Engine) -> None:
    keep_failures(engine, 5)
    question = AlertCallsQuestion(counted=FAILED, failed=EVERY)
    readers = Readers(engine)

    assert alert_calls(readers, question, attempts=2) == AlertCalls(
        count=2, among=2, failures=[FailureWords(error="limited", attempts=2)]
    )
    assert alert_calls(readers, question, attempts=5).among is None


def test_an_alert_of_a_route_says_since_when_it_fails(engine: Engine) -> None:
    keep_failures(engine, 5)
    shown = alert_calls(
        Readers(engine), AlertCallsQuestion(counted=EVERY, failed=FAILED, route="lab/big")
    )

    assert shown.route is not None
    assert (shown.route.first.at, shown.route.failed) == (START, 5)


def test_an_alert_without_calls_has_none(engine: Engine) -> None:
    assert alert_calls(Readers(engine), AlertCallsQuestion(counted=EVERY)) == AlertCalls(count=0)
