"""Holds that end unsettled, as those of killed processes do: they count as spent, and once."""

from typing import Final

import pytest

from proxy.store.ports import CountersCondition
from proxy.store.redis.budget_store import RedisBudgetStore
from slo.budgets.counter import CounterLevel
from slo.budgets.leases import LeaseReport
from slo.budgets.reservations import ReservationGranted
from tests.fakes.reservation_process import CENTS_10, CLAIM

pytestmark = pytest.mark.anyio
NOW: Final = 1000.0
COUNTER: Final = CLAIM.counter


@pytest.fixture
def kind() -> str:
    return "redis"


@pytest.fixture
def store(store: RedisBudgetStore) -> RedisBudgetStore:
    """Counters on which a hold that ends unsettled counts as spent."""
    store.counts_ended = True
    return store


async def test_a_hold_that_ends_unsettled_counts_as_spent_until_its_settlement_replaces_it(store):
    await store.reserve("a", [CLAIM], NOW, NOW + 60)
    assert await store.levels([COUNTER], NOW + 59) == [CounterLevel(0, CENTS_10)]
    assert await store.levels([COUNTER], NOW + 60) == [CounterLevel(CENTS_10, 0)]

    # A process that was only frozen goes on: nothing is held or counted twice.
    assert await store.extend("a", [COUNTER], NOW + 70, NOW + 130)
    again = await store.reserve("a", [CLAIM], NOW + 70, NOW + 130)
    assert again == ReservationGranted((CounterLevel(CENTS_10, 0),), (0,))
    assert await store.settle("a", {COUNTER: 7}, NOW + 71)
    assert not await store.settle("a", {COUNTER: 7}, NOW + 72)
    assert await store.levels([COUNTER], NOW + 200) == [CounterLevel(7, 0)]


async def test_a_hold_that_is_given_back_before_or_after_its_end_counts_as_nothing(store):
    for name in ("before", "after"):
        await store.reserve(name, [CLAIM], NOW, NOW + 60)
    await store.settle("before", {COUNTER: 0}, NOW + 1)
    assert await store.levels([COUNTER], NOW + 60) == [CounterLevel(CENTS_10, 0)]
    await store.settle("after", {COUNTER: 0}, NOW + 61)
    assert await store.levels([COUNTER], NOW + 62) == [CounterLevel(0, 0)]


async def test_of_the_lease_of_a_dead_process_what_calls_held_counts_and_the_rest_is_freed(store):
    def report(serial: int, floor: int) -> LeaseReport:
        return LeaseReport(
            counter=COUNTER,
            serial=serial,
            number=serial,
            spent={},
            floor=floor,
            keep=10 * CENTS_10,
            want=10 * CENTS_10,
            least=CENTS_10,
            is_new=True,
            running=3,
            limit=200 * CENTS_10,
            ends=NOW + 86_400,
        )

    await store.change_condition(CountersCondition.EMPTY, CountersCondition.WHOLE, NOW)
    await store.report("lease/1", [report(1, 3 * CENTS_10)], NOW, 60.0)
    assert await store.levels([COUNTER], NOW + 59) == [CounterLevel(0, 10 * CENTS_10)]
    assert await store.levels([COUNTER], NOW + 60) == [CounterLevel(3 * CENTS_10, 0)]

    # It was only frozen: its next report says anew what it holds.
    await store.report("lease/1", [report(2, 2 * CENTS_10)], NOW + 61, 60.0)
    (level,) = await store.levels([COUNTER], NOW + 61)
    assert level.spent == 0
    assert level.held >= 2 * CENTS_10


async def test_of_calls_cut_off_the_hold_is_spent_once_though_the_ledger_books_them_before_it_ends(
    store,
):
    before, booked = 2 * CENTS_10, CENTS_10 // 4

    await store.raise_spent({COUNTER: before}, NOW)
    for name in ("cut", "cut too"):
        await store.reserve(name, [CLAIM], NOW, NOW + 60)
    await store.reserve("alive", [CLAIM], NOW, NOW + 90)
    for receipts in (1, 6, 6):
        await store.raise_spent({COUNTER: before + receipts * booked}, NOW + 30)
    (level,) = await store.levels([COUNTER], NOW + 59)
    assert level == CounterLevel(before + 6 * booked, 3 * CENTS_10)

    assert await store.levels([COUNTER], NOW + 60) == [CounterLevel(before + 8 * booked, CENTS_10)]
    await store.raise_spent({COUNTER: before + 6 * booked}, NOW + 80)
    await store.settle("alive", {COUNTER: 7}, NOW + 81)
    assert await store.levels([COUNTER], NOW + 90) == [CounterLevel(before + 8 * booked + 7, 0)]


async def test_a_lift_that_comes_after_a_hold_of_the_dead_ended_finds_it_spent(store):
    await store.reserve("cut", [CLAIM], NOW, NOW + 60)
    assert await store.raise_spent({COUNTER: CENTS_10 // 4}, NOW + 60) == [CENTS_10]
    assert await store.levels([COUNTER], NOW + 61) == [CounterLevel(CENTS_10, 0)]
