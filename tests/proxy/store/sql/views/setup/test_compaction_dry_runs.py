"""Dry runs of compaction, read from receipts."""

from typing import Any

import pytest

from dashboards.reports import ALL_CALLS, SpendFilter
from proxy.store.sql.database import read_transaction
from proxy.store.sql.views.setup.compaction_dry_runs import DryRunTokens, dry_run_tokens
from proxy.store.store import Store
from slo.usage import Usage
from tests.fakes.ledger import book
from tests.fakes.receipts import START, a_receipt

PERIOD = (int(START) - 86_400, int(START) + 86_400)


def keep(store: Store, *changes: dict[str, Any]) -> None:
    dry = {"team": "a", "feature": "chat", "compaction": "facts", "compaction_why": "dry_run: pays"}
    tokens = {"tokens_before": 100, "tokens_after": 60, "usage": Usage(input=90, output=9)}
    receipts = [a_receipt(n, **(dry | tokens | change)) for n, change in enumerate(changes)]
    book(store._engine, receipts, 0.5)


def read(store: Store, only: SpendFilter = ALL_CALLS) -> dict[tuple[str, str], DryRunTokens]:
    with read_transaction(store._engine, is_snapshot=True) as connection:
        return dict(dry_run_tokens(connection, PERIOD, only))


def test_dry_runs_are_summed_by_feature_and_other_calls_are_none(store: Store) -> None:
    keep(
        store,
        {},
        {"compaction_why": "dry_run: does_not_pay", "tokens_after": 100},
        {"compaction_why": "pays"},
        {"compaction_why": "dry_run: pays", "tokens_before": 0, "tokens_after": 0},
        {"team": "b", "feature": ""},
    )

    assert read(store) == {
        ("a", "chat"): DryRunTokens(2, 200, 160, 180, 18),
        ("b", ""): DryRunTokens(1, 100, 60, 90, 9),
    }
    assert set(read(store, SpendFilter(teams=frozenset("b")))) == {("b", "")}


@pytest.mark.parametrize(
    ("dry", "saved"),
    [
        (DryRunTokens(), None),
        (DryRunTokens(19, 200, 160, 300, 100), None),
        (DryRunTokens(20, 200, 160, 300, 100), 750),
    ],
)
def test_a_saving_is_of_the_prompts_part_and_unknown_below_twenty_dry_runs(
    dry: DryRunTokens, saved: int | None
) -> None:
    assert dry.saved_nanos(5_000) == saved
