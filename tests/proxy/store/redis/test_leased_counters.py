"""Processes that lease parts of the same counters in Redis, over a wire that loses messages."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from proxy.store.errors import StoreError
from proxy.store.ports import CountersCondition
from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.redis.leased_counters import TTL_S, LeasedCounters
from slo.budgets.counter import CounterLevel
from slo.budgets.leases import (
    IDLE_S,
    MAX_LEASE_DIVISOR,
    MIN_LEASED_CALLS,
    VALID_S,
)
from slo.budgets.reservations import ReservationGranted
from tests.fakes.redis_keys import SERVER
from tests.proxy.store.redis.leasing_processes import (
    COST,
    DAY,
    LIMIT,
    NOW,
    LeasingProcesses,
    MessageFate,
    claim,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def fleet(redis_prefix: str) -> AsyncIterator[LeasingProcesses]:
    """Two processes."""
    fleet = LeasingProcesses(redis_prefix)
    await fleet.begin()
    yield fleet
    await fleet.close()


async def test_once_a_counter_is_leased_calls_ask_redis_nothing(fleet):
    await fleet.take_lease()
    requests = fleet.wires[0].asked
    names = [await fleet.call() for _ in range(MIN_LEASED_CALLS)]
    for name in names:
        assert name is not None
        assert await fleet.processes[0].extend(name, ["team"], fleet.now, fleet.now + 60)
        await fleet.end(0, name, 7)
    assert fleet.wires[0].asked == requests
    await fleet.processes[0].renew()
    assert (await fleet.level()).spent == 7 * MIN_LEASED_CALLS


async def test_calls_go_on_while_redis_stalls_and_no_longer_than_a_lease_is_valid(fleet):
    await fleet.take_lease()
    fleet.wires[0].wire = MessageFate.UNSENT
    for _ in range(int(VALID_S * 2) - 1):
        fleet.now += 0.5
        name = await fleet.call()
        assert name is not None
        await fleet.end(0, name, 3)
        with pytest.raises(StoreError):
            await fleet.processes[0].renew()
    fleet.now += 0.5
    assert await fleet.call() is None

    fleet.wires[0].wire = MessageFate.FINE
    await fleet.processes[0].renew()
    await fleet.processes[0].renew()
    assert (await fleet.level()).spent == fleet.spent


async def test_a_lease_is_a_small_part_of_what_is_free_and_none_where_that_is_few_calls(fleet):
    await fleet.take_lease()
    assert MIN_LEASED_CALLS * COST <= (await fleet.level()).held <= LIMIT // MAX_LEASE_DIVISOR
    await fleet.processes[1].settle("much", {"team": LIMIT - 1000}, fleet.now)
    for _ in range(3):
        assert await fleet.call() is not None
        await fleet.processes[0].renew()
    assert (await fleet.level()).held == len(fleet.running) * COST


async def test_all_of_a_budget_can_be_spent_to_the_last_call(fleet):
    for _ in range(3):
        for which in (0, 1):
            await fleet.take_lease(which)
    for number in range(2 * LIMIT // COST):
        which = number % 2
        if (name := await fleet.call(which)) is not None:
            await fleet.end(which, name, COST)
        if number % 20 == 0:
            await fleet.processes[0].renew()
            await fleet.processes[1].renew()
    assert fleet.spent == LIMIT


async def test_a_lease_nobody_needs_is_given_back_and_so_is_every_lease_at_the_end(fleet):
    await fleet.take_lease(0)
    await fleet.take_lease(1)
    fleet.now += IDLE_S
    await fleet.processes[0].renew()
    assert (await fleet.level()).held > 0
    await fleet.processes[1].renew(is_last=True)
    assert await fleet.level() == CounterLevel(0, 0)
    await fleet.processes[0].renew()
    assert not fleet.processes[0]._leases


def test_unanswered_and_later_settlements_are_reported_at_the_end(redis_prefix):
    async def story() -> CounterLevel:
        fleet = LeasingProcesses(redis_prefix, processes=2)
        await fleet.begin()
        await fleet.take_lease(1)
        for wire in (MessageFate.UNANSWERED, MessageFate.FINE):
            name = await fleet.call(1)
            assert name is not None
            await fleet.end(1, name, 7)
            fleet.wires[1].wire = wire
            if wire is MessageFate.UNANSWERED:
                with pytest.raises(StoreError):
                    await fleet.processes[1].renew()
        await fleet.processes[1].aclose()
        level = await fleet.level()
        await fleet.wires[0].aclose()
        return level

    assert asyncio.run(story()) == CounterLevel(14, 0)


async def test_the_lease_of_a_dead_process_counts_until_it_expires(fleet):
    await fleet.take_lease(0)
    held = (await fleet.level()).held
    assert held > 0
    fleet.now += TTL_S - 0.01
    assert (await fleet.level()).held == held
    fleet.now += 0.01
    assert await fleet.level() == CounterLevel(0, 0)


async def test_counters_that_lose_everything_know_within_a_report_what_calls_hold_and_lease_no_more(
    fleet,
):
    await fleet.take_lease()
    ended, goes_on = await fleet.call(), await fleet.call()
    assert ended is not None
    assert goes_on is not None
    keys = await fleet.wires[0]._redis.keys(f"{fleet.wires[0]._keys}*")
    await fleet.wires[0]._redis.delete(*keys)
    await fleet.end(0, ended, 4)
    await fleet.processes[0].renew()
    assert await fleet.level() == CounterLevel(4, COST)
    assert fleet.processes[0].reserve_leased("x", [claim()], fleet.now) is None

    await fleet.processes[0].change_condition(
        CountersCondition.EMPTY, CountersCondition.WHOLE, fleet.now
    )
    await fleet.processes[0].renew()
    requests = fleet.wires[0].asked
    assert await fleet.call() is not None
    assert fleet.wires[0].asked == requests


async def test_reports_from_before_a_checkpoint_add_nothing_to_restored_counters(fleet):
    await fleet.take_lease()
    early, late = await fleet.call(), await fleet.call()
    assert early is not None
    assert late is not None
    await fleet.end(0, early, 4)
    process = fleet.processes[0]
    checkpoint = await process.begin_checkpoint(fleet.now, 5)
    fleet.now += 2
    await fleet.end(0, late, 6)
    assert await process.restore({"team": 104}, checkpoint, fleet.now) == [0]
    await process.renew()
    assert (await fleet.level()).spent == 110


async def test_counters_asked_for_once_in_a_while_are_not_leased(fleet):
    for _ in range(4):
        assert await fleet.call() is not None
        fleet.now += IDLE_S
    assert not fleet.processes[0]._leases


@pytest.mark.parametrize("leap", [-5 * DAY, -180.0, 180.0, 5 * DAY])
def test_a_clock_that_leaps_forgets_nothing_of_a_leased_budget(leap, redis_prefix):
    """Redis tells the time, as in a gateway; the clock of the process leaps every second call."""
    wall, ticks, calls = NOW, 0.0, LIMIT // COST
    claims = [claim()]

    async def one_call(leased: LeasedCounters, number: int) -> bool:
        name = f"call-{number}"
        answer = leased.reserve_leased(name, claims, wall) or await leased.reserve(
            name, claims, wall, wall + 60, only_whole=True
        )
        if not isinstance(answer, ReservationGranted):
            return False
        assert await leased.settle(name, {"team": COST}, wall)
        return True

    async def story(leased: LeasedCounters) -> None:
        nonlocal wall, ticks
        await leased.change_condition(CountersCondition.EMPTY, CountersCondition.WHOLE, wall)
        passed = 0
        for number in range(2 * calls):
            wall = NOW + ticks + leap * (number // 2 % 2)
            ticks += 0.01
            passed += await one_call(leased, number)
            if number % 5 == 4:
                await leased.renew()
        assert passed == calls
        assert await leased.levels(["team"], wall) == [CounterLevel(LIMIT, 0)]

    async def play() -> None:
        shared = RedisBudgetStore(SERVER, "acme", prefix=redis_prefix, deadline=30.0)
        leased = LeasedCounters(shared, lambda: wall, lambda: ticks)
        try:
            await story(leased)
        finally:
            await leased.aclose()

    asyncio.run(play())


async def test_a_call_that_may_be_held_in_redis_is_not_held_in_a_lease_too(fleet):
    process = fleet.processes[0]
    claims = [claim()]
    fleet.wires[0].wire = MessageFate.UNANSWERED
    with pytest.raises(StoreError):
        await process.reserve("a", claims, fleet.now, fleet.now + 60)
    fleet.wires[0].wire = MessageFate.FINE
    await fleet.take_lease()
    assert process.reserve_leased("b", claims, fleet.now) is not None
    assert process.reserve_leased("a", claims, fleet.now) is None


async def test_running_calls_are_told_leased_ones_included(fleet):
    await fleet.take_lease(0)
    for _ in range(5):
        assert await fleet.call(0) is not None
    await fleet.processes[0].renew()
    claims = [claim()]
    granted = await fleet.processes[1].reserve("x", claims, fleet.now, fleet.now + 60)
    assert isinstance(granted, ReservationGranted)
    assert granted.running == (6,)
