"""Calls wait out a stall together; in an outage none waits, and a process admits by its quota."""

import asyncio

import pytest

from proxy.services.budgets.cost_bounds.reservation_requests import CountedBudget
from proxy.services.budgets.counter_loss import CounterStalls, LocalQuota
from proxy.store.errors import StoreError
from slo.budgets.counter import CounterLevel
from slo.budgets.reservation_sizing import UsageBounds
from tests.fakes.admission_harness import NOW, budget
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.clock import ticks

STALL_WAIT_S = 3.0
TTL_S = 60.0

pytestmark = pytest.mark.instant_time


NEED = UsageBounds(sure=1, typical=5, likely=7, worst=10)
COUNTED = CountedBudget(budget(limit=1000), "acme", "b/acme", NOW + 3600)


class SilentCounters:
    """Counters that say nothing until told to.

    Attributes:
        asked: How often they were asked.
    """

    def __init__(self) -> None:
        self.is_silent = True
        self.asked = 0

    async def probe(self) -> None:
        self.asked += 1
        if self.is_silent:
            raise StoreError("it does not answer")


async def test_waiting_calls_go_on_once_the_counters_answer_and_one_of_them_asks():
    silent = SilentCounters()
    stalls = CounterStalls(silent.probe, LoopTasks())
    began = ticks()
    stalls.note_loss()
    assert stalls.is_stalled
    waiting = [asyncio.ensure_future(stalls.wait(began + STALL_WAIT_S)) for _ in range(50)]
    await asyncio.sleep(1.5)
    silent.is_silent = False
    assert all(await asyncio.gather(*waiting))
    assert 1.5 <= ticks() - began < 1.8
    assert not stalls.is_stalled
    assert silent.asked in {15, 16}, "ten times a second"


async def test_no_call_waits_longer_than_a_stall_may_last_nor_at_all_in_an_outage():
    silent = SilentCounters()
    stalls = CounterStalls(silent.probe, LoopTasks())
    began = ticks()
    stalls.note_loss()
    await asyncio.sleep(2.0)
    assert not await stalls.wait(ticks() + STALL_WAIT_S)
    assert 2.9 < ticks() - began < 3.2
    for _ in range(20):
        await asyncio.sleep(1.0)
        requests, before = silent.asked, ticks()
        stalls.note_loss()
        assert not stalls.is_stalled
        assert not await stalls.wait(ticks() + STALL_WAIT_S)
        assert ticks() == before
        assert silent.asked == requests


async def test_a_call_waits_until_its_own_deadline():
    silent = SilentCounters()
    stalls = CounterStalls(silent.probe, LoopTasks())
    began = ticks()
    stalls.note_loss()
    assert not await stalls.wait(began + 1.0)
    assert ticks() - began == 1.0


async def test_after_an_answer_or_some_quiet_seconds_a_loss_begins_a_stall_of_its_own():
    silent = SilentCounters()
    stalls = CounterStalls(silent.probe, LoopTasks())
    stalls.note_loss()
    await asyncio.sleep(4.0)
    assert not stalls.is_stalled
    stalls.note_answer()
    stalls.note_loss()
    assert stalls.is_stalled
    await asyncio.sleep(10.0)
    stalls.note_loss()
    assert not stalls.is_stalled
    await asyncio.sleep(10.1)
    stalls.note_loss()
    assert stalls.is_stalled


async def test_no_more_than_a_thousand_calls_wait():
    silent = SilentCounters()
    stalls = CounterStalls(silent.probe, LoopTasks())
    stalls.note_loss()
    deadline = ticks() + STALL_WAIT_S
    waiting = [asyncio.ensure_future(stalls.wait(deadline)) for _ in range(1_000)]
    await asyncio.sleep(0)
    assert not await stalls.wait(deadline)
    assert ticks() < deadline - 1
    assert not any(call.done() for call in waiting)
    assert not any(await asyncio.gather(*waiting))


@pytest.mark.parametrize(
    ("level", "admitted"), [(None, 10), (CounterLevel(500, 100), 4), (CounterLevel(900, 200), 0)]
)
def test_a_tenth_of_what_was_left_is_admitted_in_worst_cases(level, admitted):
    local = LocalQuota()

    results = [
        local.reserve(str(number), [local.claim(COUNTED, NEED, level)], NOW) for number in range(20)
    ]

    assert results == [True] * admitted + [False] * (20 - admitted)


def test_settled_or_expired_holds_leave_room_again():
    local = LocalQuota()
    claim = local.claim(COUNTED, NEED, CounterLevel(0, 900))
    assert local.reserve("first", [claim], NOW)
    assert not local.reserve("second", [claim], NOW)

    local.settle("first", {"b/acme": 0}, NOW)

    assert local.reserve("second", [claim], NOW)
    assert not local.reserve("third", [claim], NOW + TTL_S - 1)
    assert local.reserve("third", [claim], NOW + TTL_S + 1)
