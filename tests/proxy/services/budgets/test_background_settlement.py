"""Ended calls are settled or released in the background, also by counters that stall for long."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from proxy.services.budgets.background_settlement import BackgroundSettlement
from slo.budgets.counter import CounterClaim, CounterLevel
from slo.budgets.reservations import ReservationGranted
from tests.fakes.admission_harness import LosableBudgetStore
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.clock import ticks

pytestmark = pytest.mark.instant_time


HELD = CounterClaim("team", 60, 100, hard=True, ends=1e6)
#: Longer than settling is tried.
OUTAGE_S = 30.0


class StalledCounters:
    """Counters that stall, and a settlement that has to do with them."""

    def __init__(self) -> None:
        self.store = LosableBudgetStore()
        self.settlement = BackgroundSettlement(lambda: self.store, LoopTasks(), ticks)

    async def hold(self, name: str = "a") -> None:
        answer = await self.store.reserve(name, [HELD], ticks(), ticks() + 60)
        assert isinstance(answer, ReservationGranted)

    async def level(self) -> CounterLevel:
        (level,) = await self.store.levels(["team"], ticks())
        return level


async def test_a_settlement_releases_the_hold_and_counts_usage_in_the_background():
    scene = StalledCounters()
    await scene.hold()
    scene.settlement.settle("a", {"team": 25}, ticks())
    assert await scene.level() == CounterLevel(0, 60)
    await scene.settlement.wait_until_settled("a", 1.0)
    assert await scene.level() == CounterLevel(25, 0)


async def test_no_settlement_waits_long_for_lost_counters():
    scene = StalledCounters()
    await scene.hold()
    scene.store.is_lost = True
    scene.settlement.settle("a", {"team": 25}, ticks())
    began = ticks()
    await scene.settlement.wait_until_settled("a", 1.0)
    assert ticks() == began + 1.0
    await scene.settlement.wait_until_settled("nobody's", 1.0)
    assert ticks() == began + 1.0


async def test_a_settlement_is_tried_again_after_growing_pauses_and_then_twice_a_second():
    attempts = []

    class Recording(LosableBudgetStore):
        async def settle(self, *args: Any) -> bool:
            attempts.append(ticks())
            return await super().settle(*args)

    store = Recording()
    store.is_lost = True
    BackgroundSettlement(lambda: store, LoopTasks(), ticks).settle("a", {"team": 25}, ticks())
    await asyncio.sleep(9.1)
    pauses = [round(after - before, 3) for before, after in pairwise(attempts)]
    assert pauses == [0.2, 0.8, 2.0, 5.0, 0.0, 0.5, 0.5]


async def test_a_settlement_that_counters_hear_late_counts_what_was_used_and_holds_nothing():
    scene = StalledCounters()
    await scene.hold()
    scene.store.is_lost = True
    scene.settlement.settle("a", {"team": 25}, ticks())
    await asyncio.sleep(OUTAGE_S)
    assert await scene.level() == CounterLevel(0, 60)
    scene.store.is_lost = False
    await asyncio.sleep(1)
    assert await scene.level() == CounterLevel(25, 0)
    assert not await scene.store.settle("a", {"team": 25}, ticks())


async def test_a_reservation_that_arrives_after_its_release_holds_nothing_however_long_the_stall():
    scene = StalledCounters()
    scene.store.is_lost = True
    scene.settlement.release("a", ["team"])
    await asyncio.sleep(100 * OUTAGE_S)
    scene.store.is_lost = False
    await asyncio.sleep(1)
    await scene.hold("a")
    assert await scene.level() == CounterLevel(0, 0)


async def test_waiting_settlements_are_released_once_the_counters_are_back_and_after_each_stall():
    scene = StalledCounters()
    for _ in range(2):
        scene.store.is_lost = True
        for number in range(50):
            scene.settlement.release(f"{number}", ["team"])
        await asyncio.sleep(OUTAGE_S)
        scene.store.is_lost = False
        await asyncio.sleep(1)
    for number in range(50):
        await scene.hold(f"{number}")
    assert await scene.level() == CounterLevel(0, 0)


async def test_no_more_releases_wait_than_there_is_room_for_and_the_last_are_kept():
    scene = StalledCounters()
    scene.store.is_lost = True
    for number in range(10_001):
        scene.settlement.release(f"{number}", ["team"])
    scene.store.is_lost = False
    await scene.settlement.drain()
    await scene.hold("1")
    await scene.hold("10000")
    assert await scene.level() == CounterLevel(0, 0)
    await scene.hold("0")
    assert await scene.level() == CounterLevel(0, 60)


async def test_draining_settles_and_releases_what_it_can_and_waits_for_nothing_else():
    scene = StalledCounters()
    await scene.hold()
    scene.settlement.settle("a", {"team": 25}, ticks())
    scene.settlement.release("b", ["team"])
    await scene.settlement.drain()
    assert await scene.level() == CounterLevel(25, 0)

    scene.store.is_lost = True
    scene.settlement.release("c", ["team"])
    began = ticks()
    await scene.settlement.drain()
    assert ticks() < began + 1.0


async def test_a_settlement_after_draining_is_tried_once_and_keeps_no_task():
    scene = StalledCounters()
    await scene.settlement.drain()
    scene.store.is_lost = True
    scene.settlement.release("a", ["team"])
    await asyncio.sleep(OUTAGE_S)
    assert asyncio.all_tasks() == {asyncio.current_task()}


class SettlementCountingStore(LosableBudgetStore):
    """Counters that count how often they are asked to settle."""

    settlements = 0

    async def settle(
        self, name: str, amounts: Mapping[str, int], now: float, ended: float | None = None
    ) -> bool:
        self.settlements += 1
        return await super().settle(name, amounts, now, ended)


async def test_a_release_is_tried_every_half_second_while_counters_are_lost():
    store = SettlementCountingStore()
    store.is_lost = True
    settlement = BackgroundSettlement(lambda: store, LoopTasks(), ticks)
    settlement.release("a", ["team"])
    await asyncio.sleep(20.2)

    assert store.settlements == 41
