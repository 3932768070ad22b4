"""The calls that an objective counts as bad are those that the ledger finds for it."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine

from proxy.records.receipt import Outcome, Receipt
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ids import id_floor
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.measured_calls import MeasuredCalls
from proxy.store.sql.views.calls import CallSearch, calls_count, calls_view
from proxy.store.sql.views.readers import Readers
from slo.objectives.objective import Metric, Objective, RequestKind
from tests.fakes.receipts import START, a_receipt

OBJECTIVE = Objective(name="o", metric=Metric.TTFT, target=0.95, under=0.5)
FAILED, LEFT = Outcome.FAILED, Outcome.HUNG_UP


def receipt(n: int, **fields: Any) -> Receipt:
    values: dict[str, Any] = {"started": START + n, "ttft": 0.25, "duration": 2.0, "streamed": True}
    values |= {"queue": 0.1, "cost_nanos": 5_000}
    call_id = f"{id_floor(START + n)[:-6]}{n:06x}"
    return a_receipt(n, call_id=call_id, **(values | fields))


RECEIPTS = [
    receipt(0),
    receipt(1, ttft=0.500001),
    receipt(2, ttft=0.5),
    receipt(3, ttft=None, outcome=FAILED, duration=0.75),
    receipt(4, ttft=None, outcome=FAILED, duration=0.25),
    receipt(5, ttft=None, outcome=LEFT, duration=0.75),
    receipt(6, ttft=None, outcome=Outcome.REFUSED, duration=0.75),
    receipt(7, ttft=0.75, streamed=False),
    receipt(8, outcome=Outcome.BROKEN, duration=9.0),
    receipt(9, queue=0.75, cost_nanos=7_000),
]


def numbers(engine: Engine, measured: MeasuredCalls) -> list[int]:
    search = CallSearch(since=START - 10, until=START + 10**6, measured=measured)
    calls = calls_view(Readers(engine), search).calls
    with read_transaction(engine) as connection:
        assert calls_count(connection, search) == len(calls)
    return sorted(int(call.call_id[-6:], 16) for call in calls)


@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        ({}, [1, 3, 5, 7]),
        ({"calls": RequestKind.STREAMS}, [1, 3, 5]),
        ({"calls": RequestKind.WHOLE}, [7]),
        ({"metric": Metric.TOTAL, "under": 2.0}, [8]),
        ({"metric": Metric.ERRORS, "under": None}, [3, 4, 8]),
        ({"metric": Metric.QUEUE}, [9]),
        ({"metric": Metric.COST, "under": None, "under_nanos": 6_999}, [9]),
        ({"feature": "support"}, [1, 7]),
    ],
)
def test_calls_that_missed_an_objective_are_those_that_it_counted_as_bad(
    engine: Engine, fields: dict[str, Any], bad: list[int]
) -> None:
    objective = msgspec.structs.replace(OBJECTIVE, **fields)
    assert inserter(engine)(RECEIPTS) is None

    assert numbers(engine, MeasuredCalls(missed=objective)) == bad


def test_calls_are_found_by_their_end(engine: Engine) -> None:
    inserter(engine)(RECEIPTS)
    window = MeasuredCalls(ended_from=START + 2.0, ended_to=START + 4.0)

    assert numbers(engine, window) == [0, 1, 3]
