"""Calls of a day, as trials of policies read them."""

from typing import Any

import pytest
from sqlalchemy import Engine

from proxy.records.receipt import Outcome
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.readers import Readers
from proxy.store.sql.views.setup.past_calls import CallsOfDay, calls_of_day, yesterday
from slo.trials.past_call import PastCall
from slo.usage import Usage
from tests.fakes.ledger_day import receipt_of_yesterday
from tests.fakes.receipts import START

NOW = START + 200_000.0
USAGE = Usage(input=1_000, cache_read=200, output=50)


def read(engine: Engine, *receipts: Any, limit: int = 100) -> CallsOfDay:
    assert inserter(engine)(sorted(receipts, key=lambda receipt: receipt.call_id)) is None
    return calls_of_day(Readers(engine), yesterday(NOW), {}, limit)


def the_call(engine: Engine, *receipts: Any) -> PastCall:
    (call,) = read(engine, *receipts).calls
    return call


def test_yesterday_is_the_whole_day_before_in_utc() -> None:
    assert yesterday(86_400.0 * 3 + 5) == 86_400.0 * 2
    assert yesterday(86_400.0 * 3) == 86_400.0 * 2


def test_calls_of_other_days_and_refused_ones_are_left_out(engine: Engine) -> None:
    day = read(
        engine,
        receipt_of_yesterday(NOW, -1.0),
        receipt_of_yesterday(NOW, 0.0),
        receipt_of_yesterday(NOW, 50.0, outcome=Outcome.REFUSED),
        receipt_of_yesterday(NOW, 86_400.0),
    )

    assert [call.arrived for call in day.calls] == [yesterday(NOW)]
    assert day.read_until is None


def test_attempts_of_a_call_are_summed_and_the_last_one_is_its_end(engine: Engine) -> None:
    first = receipt_of_yesterday(
        NOW, 10.0, attempt=0, final=False, outcome=Outcome.FAILED, cost_nanos=5, usage=USAGE
    )
    end = receipt_of_yesterday(
        NOW, 10.0, call_id=first.call_id, attempt=1, cost_nanos=7, usage=USAGE, duration=2.5
    )
    call = the_call(engine, first, end)

    assert (call.cost_nanos, call.tokens, call.usage) == (12, 2_500, USAGE)
    assert (call.measurements.failed, call.measurements.total) == (False, 2.5)


def test_a_call_with_an_attempt_of_unknown_price_has_an_unknown_cost(engine: Engine) -> None:
    first = receipt_of_yesterday(NOW, 10.0, final=False, cost_nanos=5, usage=USAGE)
    end = receipt_of_yesterday(
        NOW, 10.0, call_id=first.call_id, attempt=1, cost_nanos=None, usage=USAGE
    )
    assert the_call(engine, first, end).cost_nanos is None


def test_a_failed_attempt_that_used_nothing_costs_nothing(engine: Engine) -> None:
    failed = receipt_of_yesterday(
        NOW, 10.0, outcome=Outcome.FAILED, cost_nanos=None, usage=None, ttft=None
    )
    call = the_call(engine, failed)

    assert (call.cost_nanos, call.tokens, call.measurements.failed) == (0, 0, True)


@pytest.mark.parametrize(("limit", "calls"), [(4, 4), (3, 2)])
def test_a_day_with_more_than_is_read_says_where_reading_ended(
    engine: Engine, limit: int, calls: int
) -> None:
    day = read(engine, *(receipt_of_yesterday(NOW, 60.0 * n) for n in range(4)), limit=limit)

    assert len(day.calls) == calls
    assert day.read_until == (None if limit == 4 else yesterday(NOW) + 180.0)
