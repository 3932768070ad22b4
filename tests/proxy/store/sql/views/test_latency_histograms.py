import pytest
from sqlalchemy import Engine

from dashboards.reports import ALL_CALLS, SpendFilter
from proxy.store.sql.views.latency_histograms import LatencyReader
from slo.latency_buckets import bucket_of
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import START, a_receipt, an_engine_receipt

DAY, HOUR = 86_400, 3_600
FIRST = int(START) // DAY * DAY
FAST, SLOW = bucket_of(250_000), bucket_of(2_000_000)


@pytest.fixture(params=MERGED_PARTS)
def reader(engine: Engine, request: pytest.FixtureRequest) -> LatencyReader:
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
    return LatencyReader(engine)


def test_hours_and_days_have_histograms(reader: LatencyReader) -> None:
    hours = reader.by_hour("ttft", FIRST, FIRST + DAY, ALL_CALLS)
    days = reader.by_day("ttft", FIRST, FIRST + 2 * DAY, ALL_CALLS)

    assert hours == {FIRST: {FAST: 1}, FIRST + HOUR: {SLOW: 2}}
    assert days == {FIRST: {FAST: 1, SLOW: 2}, FIRST + DAY: {FAST: 1}}


def test_values_with_most_calls_have_histograms(reader: LatencyReader) -> None:
    period = FIRST, FIRST + 2 * DAY

    assert reader.by_value("ttft", "model", period, ALL_CALLS, 5) == {
        "m": {FAST: 1, SLOW: 1},
        "n": {FAST: 1, SLOW: 1},
    }
    assert set(reader.by_value("duration", "feature", period, ALL_CALLS, 1)) == {"x"}


def test_only_teams_that_may_be_seen_are_counted(reader: LatencyReader) -> None:
    only = SpendFilter(teams=frozenset({"a"}), values={"feature": frozenset({"x"})})
    mine = SpendFilter(teams=frozenset({"a"}))

    assert reader.by_day("ttft", FIRST, FIRST + 2 * DAY, only) == {FIRST: {FAST: 1, SLOW: 1}}
    assert reader.by_hour("ttft", FIRST, FIRST + DAY, mine)[FIRST + HOUR] == {SLOW: 1}
    assert set(reader.by_value("ttft", "team", (FIRST, FIRST + DAY), mine, 9)) == {"a"}
    assert reader.phases(FIRST, FIRST + DAY, mine) == {}


def test_phases_are_those_of_engines(reader: LatencyReader) -> None:
    (found,) = reader.phases(FIRST, FIRST + DAY, ALL_CALLS).values()

    assert (found["queue_sum"], found["prefill_sum"]) == (250_000, 750_000)
    assert found["phases_count"] == 1
