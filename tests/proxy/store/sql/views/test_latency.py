from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from dashboards.reports import ALL_CALLS, ReportPeriod, SpendFilter
from dashboards.views.latency import EnginePhases
from proxy.store.sql.database import read_transaction
from proxy.store.sql.views.latency import (
    Histogram,
    LatencyQuestion,
    engine_phases,
    histograms_by_time,
    histograms_by_value,
    latency_view,
)
from proxy.store.sql.views.readers import Readers
from slo.objectives.latency_buckets import bucket_of
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import START, a_receipt, an_engine_receipt

DAY, HOUR = 86_400, 3_600
FIRST = int(START) // DAY * DAY
DATE = datetime.fromtimestamp(FIRST, UTC).date()
FAST, SLOW = bucket_of(250_000), bucket_of(2_000_000)


@pytest.fixture(params=MERGED_PARTS)
def ledger(engine: Engine, request: pytest.FixtureRequest) -> Engine:
    book(
        engine,
        [
            a_receipt(1, started=FIRST + 10, team="a", feature="x", route="lab/m", ttft=0.25),
            a_receipt(2, started=FIRST + HOUR, team="a", feature="x", route="lab/m", ttft=2.0),
            a_receipt(3, started=FIRST + HOUR, team="b", feature="y", route="lab/n", ttft=2.0),
            a_receipt(4, started=FIRST + DAY, team="b", feature="y", route="lab/n", ttft=0.25),
            an_engine_receipt(6, team="c", started=FIRST, upstream="gpu", ttft=None),
        ],
        request.param,
    )
    return engine


def question(**changes: Any) -> LatencyQuestion:
    """A question for two days by feature."""
    fields: dict[str, Any] = {
        "metric": "ttft",
        "by": "feature",
        "top": 5,
        "period": ReportPeriod(first=DATE, end=DATE + timedelta(days=2), zone="UTC"),
        "unit": "day",
        "only": ALL_CALLS,
    }
    return LatencyQuestion(**(fields | changes))


def by_time(engine: Engine, **changes: Any) -> Mapping[int, Histogram]:
    with read_transaction(engine, is_snapshot=True) as connection:
        return histograms_by_time(connection, question(**changes))


def by_value(engine: Engine, **changes: Any) -> Mapping[str, Histogram]:
    with read_transaction(engine, is_snapshot=True) as connection:
        return histograms_by_value(connection, question(**changes))


def phases(engine: Engine, only: SpendFilter) -> list[EnginePhases]:
    with read_transaction(engine, is_snapshot=True) as connection:
        return engine_phases(connection, (FIRST, FIRST + DAY), only)


def test_hours_and_days_have_histograms(ledger: Engine) -> None:
    assert by_time(ledger, unit="hour") == {
        FIRST: {FAST: 1},
        FIRST + HOUR: {SLOW: 2},
        FIRST + DAY: {FAST: 1},
    }
    assert by_time(ledger) == {FIRST: {FAST: 1, SLOW: 2}, FIRST + DAY: {FAST: 1}}


def test_values_have_histograms(ledger: Engine) -> None:
    assert by_value(ledger, by="model") == {"m": {FAST: 1, SLOW: 1}, "n": {FAST: 1, SLOW: 1}}


def test_rows_are_values_with_most_calls_beside_their_p95_of_the_period_before(
    ledger: Engine,
) -> None:
    second_day = ReportPeriod(
        first=DATE + timedelta(days=1), end=DATE + timedelta(days=2), zone="UTC"
    )
    only = SpendFilter(teams=None, values={"team": frozenset({"b"})})
    shown = latency_view(Readers(ledger), question(period=second_day, only=only))
    most = latency_view(Readers(ledger), question(metric="duration", top=1))

    assert [(row.value, row.before_p95) for row in most.rows] == [("x", None)]
    (row,) = shown.rows
    assert row.value == "y"
    assert row.percentiles.p95 == pytest.approx(0.25, rel=shown.max_error)
    assert row.before_p95 == pytest.approx(2.0, rel=shown.max_error)


def test_latencies_of_teams_that_may_not_be_seen_are_not_counted(ledger: Engine) -> None:
    only = SpendFilter(teams=frozenset({"a"}), values={"feature": frozenset({"x"})})
    mine = SpendFilter(teams=frozenset({"a"}))

    assert by_time(ledger, only=only) == {FIRST: {FAST: 1, SLOW: 1}}
    assert by_time(ledger, unit="hour", only=mine)[FIRST + HOUR] == {SLOW: 1}
    assert set(by_value(ledger, by="team", only=mine)) == {"a"}
    assert phases(ledger, mine) == []


def test_phases_are_those_of_engines(ledger: Engine) -> None:
    (of_gpu,) = phases(ledger, ALL_CALLS)

    assert (of_gpu.upstream, of_gpu.calls, of_gpu.queue, of_gpu.prefill) == ("gpu", 1, 0.25, 0.75)
