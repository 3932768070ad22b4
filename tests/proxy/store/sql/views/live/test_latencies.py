"""Latencies of the last minutes and hours, beside those of the window before."""

from typing import Any

import pytest
from sqlalchemy import Engine

from dashboards.reports import ALL_CALLS, SpendFilter, latest_days
from dashboards.views.latency import LatencyView
from proxy.records.receipt import Outcome
from proxy.store.sql.ids import call_ids
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.latency import LatencyQuestion
from proxy.store.sql.views.live.latencies import window_latencies
from proxy.store.sql.views.readers import Readers
from tests.fakes.receipts import a_receipt

NOW = 1_790_000_030.0
make_id = call_ids()


@pytest.fixture
def readers(engine: Engine) -> Readers:
    def at(seconds_ago: float, **changes: Any) -> Any:
        started = NOW - seconds_ago
        return a_receipt(0, call_id=make_id(started), started=started, **changes)

    receipts = [
        *(at(1_000 + n, feature="x", ttft=0.5) for n in range(10)),
        *(at(60 + n, feature="x", ttft=1.0) for n in range(8)),
        *(at(300 + n, feature="y", ttft=4.0) for n in range(2)),
        at(30, ttft=9.0, outcome=Outcome.REFUSED),
    ]
    assert inserter(engine)(receipts) is None
    return Readers(engine)


def view(readers: Readers, only: SpendFilter = ALL_CALLS, **changes: Any) -> LatencyView:
    question = LatencyQuestion(
        metric="ttft", by="feature", top=5, period=latest_days(NOW, 1), unit="minute", only=only
    )
    return window_latencies(readers, question, **{"window": "15m", "now": NOW, **changes})


def test_a_window_stands_by_the_minute_beside_the_one_before(readers: Readers) -> None:
    shown = view(readers)

    assert len(shown.starts) == len(shown.lines) == len(shown.before_p95) == 15
    assert shown.total.calls == sum(line.calls for line in shown.lines) == 10
    assert shown.total.p50 == pytest.approx(1.0, rel=shown.max_error)
    assert shown.before is not None
    assert shown.before.calls == 10
    assert shown.before.p95 == pytest.approx(0.5, rel=shown.max_error)
    assert [(row.value, row.percentiles.calls) for row in shown.rows] == [("x", 8), ("y", 2)]
    assert [row.before_p95 for row in shown.rows] == [
        pytest.approx(0.5, rel=shown.max_error),
        None,
    ]


def test_a_window_knows_every_filter(readers: Readers) -> None:
    only = SpendFilter(teams=None, values={"feature": frozenset({"y"})})
    assert view(readers, only).total.calls == 2


def test_a_window_of_too_many_calls_begins_later_and_knows_no_earlier_one(
    readers: Readers,
) -> None:
    shown = view(readers, limit=9)

    assert (shown.is_cut, shown.before, shown.before_p95) == (True, None, [])
    assert shown.total.calls == 8
    assert not view(readers, limit=12).is_cut


def test_the_window_before_lacks_the_part_that_is_to_come_of_the_running_one(
    engine: Engine,
) -> None:
    started = [NOW - 900 - 1, NOW - 900 + 1, NOW - 1]
    receipts = [a_receipt(0, call_id=make_id(at), started=at, ttft=1.0) for at in started]
    assert inserter(engine)(receipts) is None
    shown = view(Readers(engine))

    assert shown.total.calls == 1
    assert shown.before is not None
    assert shown.before.calls == 1


def test_a_window_has_its_own_dates_in_the_zone_of_the_question(engine: Engine) -> None:
    midnight = 1_790_035_200.0  # 2026-09-22 in UTC
    shown = view(Readers(engine), now=midnight + 30)
    dates = (shown.before_first, shown.before_last, shown.first, shown.last)

    assert [f"{day:%d}" for day in dates] == ["21", "21", "21", "22"]


def test_a_day_stands_by_the_hour(readers: Readers) -> None:
    shown = view(readers, window="24h")
    assert (len(shown.starts), shown.total.calls) == (24, 20)
