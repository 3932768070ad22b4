import pytest
from sqlalchemy import Engine

from dashboards.reports import ALL_CALLS, SpendFilter
from dashboards.views.latency import HealthView
from proxy.records.receipt import Outcome
from proxy.store.sql.views.latency import HealthQuestion, health_view
from proxy.store.sql.views.readers import Readers
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import START, a_receipt

HOUR = 3_600
#: A whole hour, and a moment in the one after it.
LAST_HOUR = int(START) // HOUR * HOUR
NOW = LAST_HOUR + HOUR + 600.0


@pytest.fixture(params=MERGED_PARTS)
def readers(engine: Engine, request: pytest.FixtureRequest) -> Readers:
    book(
        engine,
        [
            a_receipt(1, started=LAST_HOUR - 25 * HOUR, team="a", duration=60.0),
            a_receipt(2, started=LAST_HOUR - 10 * HOUR, team="a", duration=8.0),
            a_receipt(3, started=LAST_HOUR, team="a", duration=1.0),
            a_receipt(4, started=NOW - 1, team="b", duration=1.0, outcome=Outcome.FAILED),
        ],
        request.param,
    )
    return Readers(engine)


def health(readers: Readers, only: SpendFilter = ALL_CALLS) -> HealthView:
    return health_view(readers, HealthQuestion(now=NOW, only=only))


def test_health_is_of_the_last_whole_hour_and_the_day_before_it(readers: Readers) -> None:
    shown = health(readers)

    assert (shown.recent.since, shown.recent.calls, shown.recent.errors) == (LAST_HOUR, 2, 1)
    assert (shown.day.calls, shown.day.errors) == (3, 1)
    assert shown.recent.p95 == pytest.approx(1.0, rel=0.1)
    assert shown.day.p95 == pytest.approx(8.0, rel=0.1)


def test_team_sees_the_health_of_its_own_calls_alone(readers: Readers) -> None:
    shown = health(readers, SpendFilter(teams=frozenset({"b"})))

    assert (shown.recent.calls, shown.day.calls) == (1, 1)


def test_key_has_its_calls_and_errors_without_durations(readers: Readers) -> None:
    shown = health(readers, SpendFilter(values={"key": frozenset({"key_0", "key_1"})}))
    other = health(readers, SpendFilter(values={"key": frozenset({"key_other"})}))

    assert (shown.day.calls, shown.day.errors, shown.day.p95) == (2, 1, None)
    assert other.day.calls == 0


def test_without_calls_health_has_no_duration(engine: Engine) -> None:
    shown = health(Readers(engine))

    assert (shown.recent.calls, shown.day.calls, shown.recent.p95) == (0, 0, None)
