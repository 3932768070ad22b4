from typing import Any

from dashboards.reports import ALL_CALLS, SpendFilter
from proxy.records.receipt import Outcome
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.setup.repeated_calls import (
    MAX_ATTEMPTS,
    RepeatedCalls,
    repeated_calls,
)
from proxy.store.store import Store
from tests.fakes.receipts import START, a_receipt

PERIOD = (int(START), int(START) + 86_400)


def call_sums(store: Store, only: SpendFilter = ALL_CALLS) -> dict[tuple[str, str], RepeatedCalls]:
    with read_transaction(store._engine) as connection:
        return dict(repeated_calls(connection, PERIOD, only))


def keep(store: Store, *changes: dict[str, Any]) -> None:
    usual = {"team": "a", "feature": "x", "model": "m", "fingerprint": "same", "cost_nanos": 3}
    inserter(store._engine)([a_receipt(n, **(usual | change)) for n, change in enumerate(changes)])


def test_calls_repeat_within_a_feature_endpoint_and_model_alone(store: Store) -> None:
    keep(
        store,
        {},
        {"cost_nanos": 5},
        {"model": "n"},
        {"endpoint": "embeddings"},
        {"feature": "y"},
        {"fingerprint": "other"},
    )

    assert call_sums(store) == {
        ("a", "x"): RepeatedCalls(5, 1, 17, 5),
        ("a", "y"): RepeatedCalls(1, 0, 3, 0),
    }
    assert call_sums(store, SpendFilter(teams=frozenset({"b"}))) == {}


def test_calls_that_failed_or_have_no_body_are_not_compared(store: Store) -> None:
    keep(
        store,
        {"outcome": Outcome.FAILED},
        {"final": False},
        {"fingerprint": ""},
        {"fingerprint": ""},
        {},
        {"outcome": Outcome.FAILED},
    )

    assert call_sums(store) == {("a", "x"): RepeatedCalls(1, 0, 3, 0)}


def test_the_newest_attempts_alone_are_compared(store: Store) -> None:
    keep(store, *[{"fingerprint": "old" if n < 9 else str(n)} for n in range(MAX_ATTEMPTS + 9)])

    assert call_sums(store)["a", "x"] == RepeatedCalls(MAX_ATTEMPTS, 0, 3 * MAX_ATTEMPTS, 0)
