"""Counters that are lost, and what they hold once they are back."""

import asyncio
from contextlib import suppress

import msgspec
import pytest

from proxy.services.budgets.reconciliation import _batches
from proxy.store.errors import StoreError
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.spendings import ended_at
from slo.budgets.counter import CounterLevel
from tests.fakes.admission_harness import NOW
from tests.fakes.reconciliation_harness import COUNTER, ReconciliationHarness

pytestmark = pytest.mark.instant_time


#: Seconds after which the ledger knows whatever was spent before.
SETTLED_AFTER_S = 12.0


async def test_counters_that_were_lost_are_given_what_is_sure_at_once_and_the_rest_soon(
    harness,
):
    harness.keep(7)
    await harness.start(is_shared=True)
    await asyncio.sleep(20)
    assert await harness.level() == CounterLevel(7, 0)

    assert await harness.counters.passes("before")
    harness.counters.forget()
    assert not await harness.counters.passes("at once")
    inserter(harness.store._engine)([harness.receipt(25, 5)])
    await asyncio.sleep(1.5)
    assert await harness.level() == CounterLevel(7, 0)
    await asyncio.sleep(SETTLED_AFTER_S - 2)
    assert not await harness.counters.passes("soon")
    await asyncio.sleep(2)
    assert await harness.counters.passes("then")
    assert await harness.level() == CounterLevel(12, 0)


async def test_counters_that_are_back_and_empty_are_given_at_once_what_was_known_when_they_went(
    harness,
):
    await harness.start(is_shared=True)
    await asyncio.sleep(40)
    await harness.counters.settle("call_1/0", {COUNTER: 7}, NOW)
    harness.keep(7)
    harness.counters.is_lost = True
    await asyncio.sleep(3)
    inserter(harness.store._engine)([harness.receipt(25, 5)])
    harness.counters.forget()
    harness.counters.is_lost = False
    await asyncio.sleep(1.5)
    assert await harness.level() == CounterLevel(7, 0)
    await harness.counters.settle("call_50/0", {COUNTER: 5}, NOW)
    await asyncio.sleep(4 * SETTLED_AFTER_S)
    assert await harness.level() == CounterLevel(12, 0)


async def end_call(
    harness: ReconciliationHarness, number: int, heard: float, settles: float
) -> None:
    """A call of 10 ends; the ledger hears of it, and the counter, so much later."""
    now = harness.reconciler._now
    ended = round(now(), 6)
    receipt = msgspec.structs.replace(harness.receipt(number, 10), started=ended - 1.5)

    async def settle() -> None:
        await asyncio.sleep(settles)
        with suppress(StoreError):
            await harness.counters.settle(
                f"call_{number}/0", {COUNTER: 10}, now(), ended_at(receipt)
            )

    async with asyncio.TaskGroup() as both:
        both.create_task(settle())
        await asyncio.sleep(heard)
        inserter(harness.store._engine)([receipt])


@pytest.mark.parametrize("heard", [0.3, 3.0])
@pytest.mark.parametrize("settles", [0.1, 4.0])
@pytest.mark.parametrize("loss", ["emptied", "away"])
async def test_under_load_a_lost_counter_ends_exactly_where_the_ledger_is(
    harness, heard, settles, loss
):
    """Four calls a second."""

    await harness.start(is_shared=True)
    async with asyncio.TaskGroup() as calls:
        for number in range(440):
            calls.create_task(end_call(harness, number, heard, settles))
            await asyncio.sleep(0.25)
            if number == 160 and loss == "emptied":
                harness.counters.forget()
            harness.counters.is_lost = loss == "away" and 160 < number < 190
    assert await harness.counters.passes("then")
    assert harness.counters.spent_in_store(COUNTER) == 4400
    await asyncio.sleep(120)
    assert harness.counters.spent_in_store(COUNTER) == 4400


async def test_a_checkpoint_that_could_not_be_begun_is_begun_later(harness):
    await harness.start(is_shared=True)
    await asyncio.sleep(30)
    harness.counters.is_lost = True
    await asyncio.sleep(10)
    begin = harness.counters.begin_checkpoint

    async def begin_later(now: float, within: float) -> int:
        harness.counters.begin_checkpoint = begin
        raise StoreError("once more")

    harness.counters.begin_checkpoint = begin_later
    harness.counters.is_lost = False
    await asyncio.sleep(1)
    harness.keep(7)
    await asyncio.sleep(SETTLED_AFTER_S + 2)
    assert harness.counters.spent_in_store(COUNTER) == 7


async def test_counters_that_are_out_of_reach_for_a_moment_are_made_whole_no_later(harness):
    await harness.start(is_shared=True)
    await asyncio.sleep(30)
    harness.counters.forget()
    for _ in range(3):
        await asyncio.sleep(3)
        harness.counters.is_lost = True
        await asyncio.sleep(0.8)
        harness.counters.is_lost = False
    await asyncio.sleep(SETTLED_AFTER_S - 3 * 3.8 + 1.5)
    assert await harness.counters.passes("then")


async def test_spending_on_its_way_to_restored_counters_is_not_counted_twice(harness):
    await harness.start(is_shared=True)
    await asyncio.sleep(20)
    harness.keep(7)
    harness.counters.forget()
    await asyncio.sleep(SETTLED_AFTER_S - 2)
    await harness.counters.settle("call_1/0", {COUNTER: 7}, NOW)
    await asyncio.sleep(4 * SETTLED_AFTER_S)
    assert harness.counters.spent_in_store(COUNTER) == 7


async def test_spending_during_an_outage_is_added_when_counters_are_back(harness):
    await harness.start(is_shared=True)
    await asyncio.sleep(100)
    harness.counters.is_lost = True
    harness.keep(7)
    await asyncio.sleep(40)
    assert harness.counters.spent_in_store(COUNTER) == 0
    harness.counters.is_lost = False
    await asyncio.sleep(1.5)
    assert await harness.level() == CounterLevel(7, 0)


def test_a_hundred_counters_are_compared_at_a_time() -> None:
    batches = list(_batches({str(number): number for number in range(250)}))

    assert [len(batch) for batch in batches] == [100, 100, 50]
    assert batches[2]["249"] == 249


@pytest.mark.parametrize(("seconds", "within"), [(4.8, []), (5.2, [5.0])])
async def test_an_outage_of_more_than_five_seconds_begins_a_checkpoint_shared_for_five(
    harness, seconds: float, within: list[float]
):
    harness.counters.is_shared = True
    harness.follow_loop_time()
    await harness.reconciler.begin()
    shares: list[float] = []
    begin_checkpoint = harness.counters.begin_checkpoint

    async def begin(now: float, share_s: float) -> int:
        shares.append(share_s)
        generation: int = await begin_checkpoint(now, share_s)
        return generation

    harness.counters.begin_checkpoint = begin
    harness.run()
    await asyncio.sleep(1.1)
    harness.counters.is_lost = True
    await asyncio.sleep(seconds)
    harness.counters.is_lost = False
    await asyncio.sleep(0.6)

    assert shares == within


async def test_counters_that_could_not_be_made_whole_are_looked_at_every_second(harness):
    harness.follow_loop_time()
    timeouts: list[float] = []

    def flush(timeout: float) -> bool:
        timeouts.append(timeout)
        return False

    harness.store.drain.flush = flush
    await harness.reconciler.begin()
    harness.run()
    await asyncio.sleep(30)
    before = len(timeouts)
    await asyncio.sleep(60)

    assert len(timeouts) - before == 60
    assert set(timeouts) == {5.0}
