"""Tests of what pages are told of budgets: what the ledger knows, and what counters say."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.pages.board_data import LiveBoard
from proxy.store.errors import StoreError
from proxy.store.ports import BudgetStore
from proxy.store.redis.local_budget_store import LocalBudgetStore
from proxy.store.store import Store
from slo.budgets.budget import BudgetUnit, counter_key
from slo.budgets.counter import CounterClaim, CounterLevel
from tests.fakes.admission_harness import NOW, budget
from tests.fakes.live_board import LIMIT, ask_board, keep, raise_database_error, spent_by
from tests.fakes.receipts import a_receipt


def test_without_counters_the_ledger_says_what_was_spent(store: Store) -> None:
    spent_by(store, "acme")
    (row,) = ask_board(store, LiveBoard.counters, budget(limit=LIMIT)) or ()

    assert (row.budget, row.scope, row.whose) == ("b", "team", "acme")
    assert (row.window, row.unit, row.is_hard) == ("2026-09-21", BudgetUnit.USD, True)
    assert (row.spent, row.held, row.limit) == (10**9, None, LIMIT)


def test_of_many_counters_those_with_most_spent_are_shown(store: Store) -> None:
    spent_by(store, *(f"team {n}" for n in range(15)))
    rows = ask_board(store, LiveBoard.counters, budget(limit=LIMIT), budget(name="other")) or ()

    assert [row.whose for row in rows[:10]] == [f"team {n}" for n in range(14, 4, -1)]
    assert [row.budget for row in rows] == ["b"] * 10 + ["other"] * 10


def test_counters_say_what_is_held(store: Store) -> None:
    spent_by(store, "acme")
    name = counter_key(budget(), "acme", NOW)

    async def reserve_and_read(board: LiveBoard) -> Any:
        await mine.reserve(
            "r", [CounterClaim(name, 7, LIMIT, hard=True, ends=NOW + 60)], NOW, NOW + 60
        )
        return await board.counters()

    mine = LocalBudgetStore()
    (row,) = ask_board(store, reserve_and_read, budget(), counters=mine)
    assert (row.spent, row.held) == (0, 7)


class SlowBudgetStore(LocalBudgetStore):
    """Counters that nobody can ask, or that take their time over it."""

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__()
        self._seconds = seconds

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        if self._seconds is None:
            raise StoreError("they are away")
        await asyncio.sleep(self._seconds)
        raise AssertionError


@pytest.mark.parametrize("away", [SlowBudgetStore(), SlowBudgetStore(30.0)])
def test_counters_that_are_away_leave_the_ledgers_word(store: Store, away: BudgetStore) -> None:
    spent_by(store, "acme")
    (row,) = ask_board(store, LiveBoard.counters, budget(), counters=away, timeout_s=0.3) or ()

    assert (row.spent, row.held) == (10**9, None)


def test_counters_are_asked_also_where_the_ledger_is_away(store: Store, monkeypatch) -> None:
    monkeypatch.setattr(
        "proxy.store.sql.ledger.spendings.Spendings.from_rollups", raise_database_error
    )
    everybodys, all_together = budget(name="each"), budget(name="all", scope="organization")
    rows = ask_board(
        store,
        LiveBoard.counters,
        everybodys,
        all_together,
        counters=LocalBudgetStore(),
        timeout_s=0.3,
    )

    assert [(row.budget, row.whose, row.spent, row.held) for row in rows or ()] == [
        ("each", "*", None, None),
        ("all", "*", 0, 0),
    ]


class CountingBudgetStore(LocalBudgetStore):
    """Counters that remember how many were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def levels(self, counters: Sequence[str], now: float) -> list[CounterLevel]:
        self.asked.append(len(counters))
        return await super().levels(counters, now)


def test_of_many_counters_few_are_asked_and_others_have_their_turn_between(store: Store) -> None:
    spent_by(store, *(f"team {n}" for n in range(30)))
    counting, turns = CountingBudgetStore(), [0]

    async def count_turns() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def run(board: LiveBoard) -> list[str]:
        rows = await board._ask("budgets", lambda: board._ledger_rows(board._budgets, NOW))
        beside = asyncio.ensure_future(count_turns())
        await asyncio.sleep(0)
        turns[0] = 0
        counters = await board._counter_rows(board._budgets, rows or [], NOW)
        beside.cancel()
        return [row.whose for row in counters[0]]

    names = ask_board(store, run, *(budget(name=f"b{n}") for n in range(5)), counters=counting)
    assert names == [f"team {n}" for n in range(29, 9, -1)]
    assert counting.asked == [20] * 5
    assert turns[0] >= 5


def test_pace_of_a_counter_is_that_of_its_last_whole_days_in_the_ledger(store: Store) -> None:
    team = store.teams.create("acme", now=NOW)
    past = [NOW - n * 86_400 for n in (1, 2, 3)]
    keep(
        store,
        *(
            a_receipt(n, team=team.id, started=at, cost_nanos=3 * 10**9)
            for n, at in enumerate([NOW, *past])
        ),
    )
    (row,) = ask_board(store, LiveBoard.counters, budget(limit=LIMIT)) or ()

    left = 86_400 - NOW % 86_400
    assert row.pace is not None
    assert row.pace.basis == "last 7 days"
    assert row.pace.end == 3 * 10**9 + 3 * 10**9 * int(left) // 86_400
