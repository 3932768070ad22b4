"""Tests of what is told of budgets' counters, by the ledger and by themselves."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from heapq import nlargest
from pathlib import Path

import pytest
from redis import RedisError

from proxy.services.budgets.accounts import LedgerAccounts
from proxy.services.budgets.counter_report import (
    CounterRow,
    all_counter_rows,
    counter_rows,
    ledger_rows,
    levels,
    most_spent,
    unknown_rows,
)
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore
from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.leased_counters import LeasedCounters
from proxy.store.redis.local_budget_store import LocalBudgetStore
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from slo.budgets.budget import Budget, BudgetUnit, counter_key
from slo.budgets.counter import CounterClaim, CounterLevel
from slo.window import Window
from tests.fakes.admission_harness import NOW, budget
from tests.fakes.databases import migrated_sqlite
from tests.fakes.receipts import a_receipt
from tests.fakes.redis_keys import SERVER, prefix

SPENT = 1_500_000_000
LIMIT = 5_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """One with a call of a team's."""
    opened = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    team = opened.teams.create("acme", now=NOW)
    inserter(opened._engine)([a_receipt(0, team=team.id, cost_nanos=SPENT, feature="chat")])
    yield opened
    opened.close(5)


class UnavailableBudgetStore(LocalBudgetStore):
    """Counters that cannot be read."""

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        raise StoreError("they are away")


def ledgers(store: Store, about: Budget) -> list[CounterRow]:
    return ledger_rows(LedgerAccounts(store.spendings), about, NOW)


def test_the_ledger_knows_what_was_spent_and_not_what_is_held(store: Store) -> None:
    assert ledgers(store, budget()) == [CounterRow("acme", SPENT)]
    assert ledgers(store, budget(scope="organization")) == [CounterRow("*", SPENT)]
    minute = budget(unit=BudgetUnit.REQUESTS, window=Window.MINUTE)
    assert ledgers(store, minute) == [CounterRow("acme", 1)]


def test_of_one_who_spent_nothing_the_ledger_knows_just_that(store: Store) -> None:
    assert ledgers(store, budget(of="idle")) == [CounterRow("idle", 0)]


def test_of_what_it_does_not_count_the_ledger_says_that_nobody_knows(store: Store) -> None:
    assert ledgers(store, budget(scope="label:project")) == [CounterRow("*", None)]
    assert ledgers(store, budget(scope="label:project", of="x")) == [CounterRow("x", None)]


def test_of_more_than_it_reads_at_once_the_ledger_knows_names_alone(store: Store) -> None:
    inserter(store._engine)([a_receipt(n, user=f"u{n}") for n in (1, 2)])
    store.spendings._most_calls = 2

    assert [row.spent for row in ledgers(store, budget(scope="user"))] == [None, None]


@pytest.mark.parametrize("is_whole", [True, False])
def test_of_many_those_are_kept_of_whom_the_ledger_knows_most_to_be_spent(
    store: Store,
    is_whole: bool,  # noqa: FBT001 - a case
) -> None:
    costs = {f"u{n}": SPENT + n for n in range(1, 9)}
    receipts = [
        a_receipt(n, user=user, cost_nanos=costs[user]) for n, user in enumerate(costs, start=1)
    ]
    inserter(store._engine)(receipts)
    store.spendings._most_calls = 100 if is_whole else 8
    accounts, users = LedgerAccounts(store.spendings), budget(scope="user")
    rows = ledger_rows(accounts, users, NOW, limit=2)

    largest = nlargest(2, accounts.account(users, NOW).by.items(), key=lambda item: item[1])
    assert [row.whose for row in rows] == [whose for whose, _ in largest]
    spent = [amount for _, amount in largest]
    assert [row.spent for row in rows] == (spent if is_whole else [None, None])


async def reserve(store: BudgetStore, about: Budget, *names: str) -> None:
    for name in names:
        claim = CounterClaim(
            counter=counter_key(about, name, NOW), amount=7, limit=LIMIT, hard=True, ends=NOW + 60
        )
        await store.reserve(f"for {name}", [claim], NOW, NOW + 60)


async def test_counters_know_what_is_held(store: Store) -> None:
    mine = LocalBudgetStore()
    await reserve(mine, budget(), "acme")

    assert await all_counter_rows(mine, budget(), [CounterRow("acme", SPENT)], NOW) == [
        CounterRow("acme", 0, 7)
    ]


def test_counters_of_which_nobody_knows_whose_they_are_leave_what_is_known() -> None:
    rows = [CounterRow("*", None)]

    assert asyncio.run(all_counter_rows(LocalBudgetStore(), budget(), rows, NOW)) == rows


@pytest.mark.parametrize(
    ("ask", "rows"),
    [
        (all_counter_rows, [CounterRow("acme", 0, 7), CounterRow("new", 0, 7)]),
        (counter_rows, [CounterRow("acme", 0, 7)]),
    ],
    ids=["for people who ask", "beside calls"],
)
def test_counters_that_all_share_are_walked_for_whom_the_ledger_does_not_know_only_on_request(
    ask: Callable[..., Awaitable[list[CounterRow]]], rows: list[CounterRow]
) -> None:
    async def run(name: str) -> list[CounterRow]:
        shared = RedisBudgetStore(SERVER, "acme", prefix=name)
        try:
            await reserve(shared, budget(), "acme", "new")
            rows = await ask(shared, budget(), [CounterRow("acme", SPENT)], NOW)
            leased = LeasedCounters(shared, lambda: NOW)
            assert rows == await ask(leased, budget(), [CounterRow("acme", SPENT)], NOW)
            return rows
        finally:
            await shared.aclose()

    with ExitStack() as stack:
        try:
            name = stack.enter_context(prefix())
        except RedisError as error:
            pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({SERVER}): {error}")
        assert asyncio.run(run(name)) == rows


def test_of_a_budget_that_names_nobody_nothing_is_asked() -> None:
    assert unknown_rows(budget(of="acme")) == [CounterRow("acme", None)]
    assert asyncio.run(counter_rows(LocalBudgetStore(), budget(), unknown_rows(budget()), NOW)) == [
        CounterRow("*", None)
    ]


def test_counters_that_are_away_say_so() -> None:
    with pytest.raises(StoreError):
        asyncio.run(
            all_counter_rows(UnavailableBudgetStore(), budget(), [CounterRow("acme", SPENT)], NOW)
        )


def test_counters_are_sorted_by_what_is_spent_then_held() -> None:
    rows = [CounterRow("a", None), CounterRow("b", 1), CounterRow("d", 2), CounterRow("c", 2, 5)]

    assert [row.whose for row in most_spent(rows, 3)] == ["c", "d", "b"]


class BatchCountingStore(LocalBudgetStore):
    """Counters that note how many are asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        self.batches.append(len(counters))
        return await super().levels(counters, now)


def test_levels_are_asked_for_a_hundred_counters_at_a_time() -> None:
    store = BatchCountingStore()
    names = [str(number) for number in range(250)]

    assert asyncio.run(levels(store, names, NOW)) == [CounterLevel(0, 0)] * 250
    assert store.batches == [100, 100, 50]


class ListingRedisStore(RedisBudgetStore):
    """Redis that notes how many counters it is asked to name, and has none."""

    async def counters_from(self, start: str, most: int) -> list[str]:
        self.most = most
        return []


async def test_up_to_5000_counters_of_a_budget_are_looked_for() -> None:
    store = ListingRedisStore(SERVER, "acme")
    try:
        assert await all_counter_rows(store, budget(), [CounterRow("*", None)], NOW)
        assert store.most == 5_000
    finally:
        await store.aclose()
