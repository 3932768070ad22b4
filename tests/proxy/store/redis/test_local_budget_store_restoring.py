"""Counters that lost what they knew are restored from the ledger, once, and never below it."""

import asyncio

import pytest

from proxy.store.ports import CountersCondition
from slo.budgets.counter import CounterLevel
from slo.budgets.reservations import ReservationGranted
from tests.proxy.store.redis.counter_claims import LATER, NONE, NOW, claim

pytestmark = pytest.mark.anyio


async def test_restoring_raises_spending_never_lowers_it_and_keeps_holds(store):
    await store.reserve("a", [claim(60)], NOW, LATER)
    assert await store.raise_spent({"team": 40, "user": 0}, NOW) == [0, 0]
    assert await store.raise_spent({"team": 30, "user": 7}, NOW) == [40, 0]
    assert await store.levels(["team", "user"], NOW) == [
        CounterLevel(40, 60),
        CounterLevel(7, 0),
    ]
    assert await store.raise_spent({}, NOW) == []


async def test_lifting_twice_at_once_is_lifting_once_and_what_is_settled_later_is_added(store):
    await asyncio.gather(*(store.raise_spent({"team": 40}, NOW) for _ in range(20)))
    await store.settle("a", {"team": 2}, NOW)
    assert await store.levels(["team"], NOW) == [CounterLevel(42, 0)]


async def test_counters_that_have_just_begun_are_not_whole_until_somebody_says_so(store):
    assert await store.condition(NOW) is CountersCondition.EMPTY
    assert await store.reserve("a", [claim(60)], NOW, LATER, only_whole=True) is None
    assert await store.levels(["team"], NOW) == [NONE]

    assert await store.change_condition(CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW)
    await store.raise_spent({"team": 40}, NOW)
    assert await store.reserve("a", [claim(60)], NOW, LATER, only_whole=True) is None

    assert await store.change_condition(CountersCondition.REPAIRING, CountersCondition.WHOLE, NOW)
    assert await store.condition(NOW) is CountersCondition.WHOLE
    granted = await store.reserve("a", [claim(60)], NOW, LATER, only_whole=True)
    assert granted == ReservationGranted((CounterLevel(40, 60),), (1,))


async def test_a_claim_that_accepts_partial_counters_is_counted_by_any(store):
    assert await store.reserve("a", [claim(60)], NOW, LATER) == ReservationGranted(
        (CounterLevel(0, 60),), (1,)
    )
    assert await store.reserve("b", [], NOW, LATER, only_whole=True) == ReservationGranted(())


async def test_a_mark_that_says_another_thing_is_not_turned(store):
    for before in (CountersCondition.REPAIRING, CountersCondition.WHOLE):
        assert not await store.change_condition(before, CountersCondition.WHOLE, NOW)
    assert await store.condition(NOW) is CountersCondition.EMPTY
    once = await asyncio.gather(
        *(
            store.change_condition(CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW)
            for _ in range(20)
        )
    )
    assert sum(once) == 1
    assert await store.change_condition(CountersCondition.REPAIRING, CountersCondition.WHOLE, NOW)
    assert not await store.change_condition(
        CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW
    )
    assert await store.change_condition(CountersCondition.WHOLE, CountersCondition.WHOLE, NOW)
    assert await store.condition(NOW) is CountersCondition.WHOLE


async def test_restoring_counts_what_ended_before_the_checkpoint_and_what_was_settled_later(store):
    point = await store.begin_checkpoint(NOW + 0.5, 5)
    assert point == NOW + 1
    await store.settle("before", {"team": 3}, NOW + 1, NOW + 0.999)
    await store.settle("after", {"team": 10}, NOW + 2, NOW + 1)
    assert await store.levels(["team"], NOW + 2) == [CounterLevel(13, 0)]

    assert await store.restore({"team": 40, "user": 5}, point, NOW + 12) == [13, 0]
    assert await store.levels(["team", "user"], NOW + 12) == [
        CounterLevel(50, 0),
        CounterLevel(5, 0),
    ]
    await store.settle("late", {"team": 4, "user": 1}, NOW + 13, NOW + 0.5)
    await store.settle("now", {"team": 20, "user": 2}, NOW + 13)
    assert await store.levels(["team", "user"], NOW + 13) == [
        CounterLevel(70, 0),
        CounterLevel(7, 0),
    ]


async def test_restoring_twice_is_restoring_once_and_the_ledger_may_know_more_by_then(store):
    point = await store.begin_checkpoint(NOW, 5)
    await store.settle("a", {"team": 2}, NOW + 3)
    for amount in (40, 40, 47, 40):
        await store.restore({"team": amount}, point, NOW + 12)
    assert await store.levels(["team"], NOW + 12) == [CounterLevel(49, 0)]


async def test_restoring_lowers_counters_that_are_not_whole_and_never_those_that_are(store):
    await store.raise_spent({"team": 70}, NOW)
    point = await store.begin_checkpoint(NOW, 5)
    await store.change_condition(CountersCondition.EMPTY, CountersCondition.REPAIRING, NOW)
    await store.restore({"team": 60}, point, NOW + 12)
    assert await store.levels(["team"], NOW) == [CounterLevel(60, 0)]

    await store.change_condition(CountersCondition.REPAIRING, CountersCondition.WHOLE, NOW + 12)
    await store.raise_spent({"team": 80}, NOW + 12)
    assert await store.restore({"team": 60}, point, NOW + 12) == [80]
    assert await store.levels(["team"], NOW + 12) == [CounterLevel(80, 0)]
    await store.restore({"team": 90}, point, NOW + 12)
    assert await store.levels(["team"], NOW + 12) == [CounterLevel(90, 0)]


async def test_a_checkpoint_is_shared_for_a_moment_and_then_another_begins(store):
    first = await store.begin_checkpoint(NOW, 5)
    assert await store.begin_checkpoint(NOW + 6, 5) == first
    await store.settle("a", {"team": 5}, NOW + 6)
    second = await store.begin_checkpoint(NOW + 7, 5)
    assert second == NOW + 8
    assert await store.begin_checkpoint(NOW + 400, 900) == second

    await store.settle("b", {"team": 2}, NOW + 8)
    assert await store.restore({"team": 50}, first, NOW + 20) == [7]
    assert await store.levels(["team"], NOW + 20) == [CounterLevel(7, 0)]
    await store.restore({"team": 50}, second, NOW + 20)
    assert await store.levels(["team"], NOW + 20) == [CounterLevel(52, 0)]
