from typing import Any

from dashboards.reports import ALL_CALLS, SpendFilter
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.views.setup.repeated_prompts import (
    MAX_PROMPTS,
    RepeatedPrompts,
    repeated_prompts,
)
from proxy.store.store import Store
from tests.fakes.receipts import START, a_receipt

PERIOD = (int(START), int(START) + 86_400)


def prompt_sums(
    store: Store, only: SpendFilter = ALL_CALLS
) -> dict[tuple[str, str], RepeatedPrompts]:
    with read_transaction(store._engine) as connection:
        return dict(repeated_prompts(connection, PERIOD, only))


def test_prompts_repeat_within_a_feature_and_model_alone(store: Store) -> None:
    usual: dict[str, Any] = {
        "team": "a",
        "feature": "x",
        "model": "m",
        "prompt": "same",
        "cost_nanos": 3,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"cost_nanos": 5},
        {"model": "n"},
        {"feature": "y"},
        {"prompt": None},
    ]
    inserter(store._engine)([a_receipt(n, **(usual | change)) for n, change in enumerate(changes)])

    assert prompt_sums(store) == {
        ("a", "x"): RepeatedPrompts(3, 1, 11, 5),
        ("a", "y"): RepeatedPrompts(1, 0, 3, 0),
    }
    assert prompt_sums(store, SpendFilter(teams=frozenset({"b"}))) == {}


def test_the_newest_prompts_alone_are_compared(store: Store) -> None:
    receipts = [
        a_receipt(n, team="a", feature="x", prompt="old" if n < 9 else str(n))
        for n in range(MAX_PROMPTS + 9)
    ]
    inserter(store._engine)(receipts)

    assert prompt_sums(store)["a", "x"].prompts == MAX_PROMPTS
    assert prompt_sums(store)["a", "x"].repeated == 0
