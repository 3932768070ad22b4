"""Tests of what calls are admitted while counters are out of reach, or came back empty."""

import asyncio

import pytest

from proxy.errors import Unready
from slo.budgets.budget import OnStoreLoss
from slo.budgets.counter import CounterLevel
from tests.fakes.admission_harness import LIKELY_WORST, WORST, AdmissionHarness, budget
from tests.fakes.admission_scenarios import (
    ANSWERED,
    COST,
    COUNTER,
    admit_until_refused,
    wait_until_settled,
)
from tests.fakes.clock import ticks
from tests.fakes.refusals import refusing

pytestmark = pytest.mark.instant_time


async def test_without_counters_calls_pass_where_the_budget_is_open():
    harness = AdmissionHarness(budget(on_loss=OnStoreLoss.OPEN))
    harness.store.is_lost = True
    assert await harness.admit(harness.attempt(1)) == {}


async def test_without_counters_calls_are_told_to_come_back_where_the_budget_is_closed():
    harness = AdmissionHarness(budget(on_loss=OnStoreLoss.CLOSED))
    harness.store.is_lost = True
    with pytest.raises(Unready) as refused:
        await harness.admit(harness.attempt(1))
    assert refused.value.retry_after == 2.0


@pytest.mark.parametrize("seconds", [0.4, 1.5, 2.5])
async def test_a_stall_refuses_no_call_of_a_closed_budget_and_holds_each_once(seconds):
    harness = AdmissionHarness(budget(on_loss=OnStoreLoss.CLOSED))
    harness.store.is_lost = True
    calls = []
    for number in range(8):
        calls.append(asyncio.ensure_future(harness.admit(harness.attempt(number))))
        await asyncio.sleep(seconds / 8)
    assert not any(task.done() for task in calls)
    assert harness.store.asked <= 4  # one finds out, the others wait for one answer
    harness.store.is_lost = False
    await asyncio.gather(*calls)
    assert await harness.level(COUNTER) == CounterLevel(0, 8 * WORST)


async def test_an_outage_refuses_at_once_after_three_seconds_and_calls_pass_soon_after_its_end():
    harness = AdmissionHarness(budget(on_loss=OnStoreLoss.CLOSED))
    harness.store.is_lost = True
    began = ticks()
    with pytest.raises(Unready):
        await harness.admit(harness.attempt(1))
    assert 2.9 < ticks() - began < 3.5
    for number in range(2, 30):
        before = ticks()
        with pytest.raises(Unready):
            await harness.admit(harness.attempt(number))
        assert ticks() == before
        await asyncio.sleep(0.3)
    harness.store.is_lost = False
    await asyncio.sleep(1.1)
    await harness.admit(harness.attempt(50))


async def test_a_call_that_no_budget_refuses_waits_for_nothing_during_a_stall():
    harness = AdmissionHarness(budget(on_loss=OnStoreLoss.OPEN))
    harness.store.is_lost = True
    before = ticks()
    await harness.admit(harness.attempt(1))
    assert ticks() == before


async def test_counters_that_were_lost_are_asked_again_a_little_later():
    harness = AdmissionHarness(budget(on_loss=OnStoreLoss.OPEN))
    harness.store.is_lost = True
    for number in range(5):
        await harness.admit(harness.attempt(number))
    assert harness.store.asked == 2
    harness.store.is_lost = False
    await asyncio.sleep(0.99)
    await harness.admit(harness.attempt(8))
    assert harness.store.asked == 2
    await asyncio.sleep(0.02)
    await harness.admit(harness.attempt(9))
    assert harness.store.asked == 3


async def test_emptied_counters_are_as_good_as_away_where_a_budget_is_closed_and_asked_each_time():
    harness = AdmissionHarness(
        budget(on_loss=OnStoreLoss.CLOSED), budget(name="other", on_loss=OnStoreLoss.OPEN)
    )
    harness.store.forget()
    for number in range(3):
        with pytest.raises(Unready) as refused:
            await harness.admit(harness.attempt(number))
        assert refused.value.code == "budgets_unavailable"
    assert harness.store.asked == 3
    assert await harness.level(COUNTER) == CounterLevel(0, 0)

    harness.store.mend()
    await harness.admit(harness.attempt(9))
    assert await harness.level(COUNTER) == CounterLevel(0, WORST)


@pytest.mark.parametrize(
    ("fields", "reserved"),
    [({"on_loss": OnStoreLoss.OPEN}, WORST), ({"hard": False}, LIKELY_WORST)],
)
async def test_emptied_counters_still_count_where_nothing_is_closed(fields, reserved):
    harness = AdmissionHarness(budget(**fields))
    harness.store.forget()
    await harness.admit(harness.attempt(1))
    assert await harness.level(COUNTER) == CounterLevel(0, reserved)


async def test_with_emptied_counters_each_process_spends_a_part_of_what_was_left():
    harness = AdmissionHarness(budget(on_loss=OnStoreLoss.LOCAL_QUOTA, limit=31 * WORST))
    await harness.admit(harness.attempt(0))
    harness.store.forget()
    admitted = await admit_until_refused(harness, Unready)
    assert len(admitted) == 3
    for attempt in admitted:
        harness.end(attempt, ANSWERED)
    await wait_until_settled(harness)
    assert await harness.level(COUNTER) == CounterLevel(3 * COST, 0)


async def test_emptied_counters_soon_know_again_what_is_held_for_calls_under_way():
    harness = AdmissionHarness(budget())
    beating = asyncio.ensure_future(harness.admission.extend_reservations())
    attempts = [harness.attempt(number) for number in range(10)]
    for attempt in attempts:
        await harness.admit(attempt)
    harness.store.forget()
    harness.end(attempts.pop(), ANSWERED)
    await asyncio.sleep(11)
    assert await harness.level(COUNTER) == CounterLevel(COST, 9 * WORST)
    harness.store.mend()
    with refusing(429):
        await harness.admit(harness.attempt(10))

    for attempt in attempts:
        harness.end(attempt, ANSWERED)
    await wait_until_settled(harness)
    assert await harness.level(COUNTER) == CounterLevel(10 * COST, 0)
    beating.cancel()


async def test_without_counters_each_process_spends_a_part_of_what_was_left():
    harness = AdmissionHarness(budget(on_loss=OnStoreLoss.LOCAL_QUOTA, limit=31 * WORST))
    await harness.admit(harness.attempt(0))
    harness.store.is_lost = True
    admitted = await admit_until_refused(harness, Unready)
    assert len(admitted) == 3
    harness.store.is_lost = False
    for attempt in admitted:
        harness.end(attempt, ANSWERED)
    await wait_until_settled(harness)
    assert await harness.level(COUNTER) == CounterLevel(3 * COST, WORST)


@pytest.mark.parametrize("loss", list(OnStoreLoss))
async def test_leased_amounts_admit_and_settle_calls_while_counters_are_unavailable(loss):
    harness = AdmissionHarness(budget(on_loss=loss))
    harness.store.is_lost = harness.store.leases = True
    attempt = harness.attempt(1)
    headers = await harness.admit(attempt)
    assert harness.store.asked == 0
    harness.end(attempt, ANSWERED)
    harness.store.is_lost = False
    assert await harness.level(COUNTER) == CounterLevel(COST, 0)
    harness.store.leases = False
    assert headers == await harness.admit(harness.attempt(2)) == {}


async def test_after_a_loss_leased_calls_go_on_and_others_ask_the_store():
    harness = AdmissionHarness(budget(limit=WORST + WORST // 2))
    harness.store.is_lost = True
    with pytest.raises(Unready):
        await harness.admit(harness.attempt(1))
    harness.store.leases = True
    await harness.admit(harness.attempt(2))
    with pytest.raises(Unready):
        await harness.admit(harness.attempt(3))


async def test_a_call_that_is_refused_as_counters_did_not_answer_holds_nothing_once_they_are_back():
    harness = AdmissionHarness(budget())
    harness.store.stalls = 1_000
    with pytest.raises(Unready):
        await harness.admit(harness.attempt(1))
    harness.store.stalls = 0
    await asyncio.sleep(1)
    harness.store.go_on()
    assert await harness.level(COUNTER) == CounterLevel(0, 0)


async def test_a_call_that_is_over_budget_when_asked_again_holds_nothing_when_room_is_made():
    harness = AdmissionHarness(budget(limit=WORST + COST))
    first = harness.attempt(1)
    await harness.admit(first)
    harness.store.stalls = 1
    with refusing(429):
        await harness.admit(harness.attempt(2))
    harness.end(first, ANSWERED)
    await asyncio.sleep(1)
    harness.store.go_on()
    assert await harness.level(COUNTER) == CounterLevel(COST, 0)


async def test_a_call_that_is_refused_by_emptied_counters_when_asked_again_holds_nothing():
    harness = AdmissionHarness(budget())
    harness.store.stalls = 1
    harness.store.forget()
    with pytest.raises(Unready):
        await harness.admit(harness.attempt(1))
    await asyncio.sleep(1)
    harness.store.go_on()
    assert await harness.level(COUNTER) == CounterLevel(0, 0)


async def test_a_call_within_a_lease_that_ends_during_a_beat_is_not_held_again():
    harness = AdmissionHarness(budget())
    first, second = harness.attempt(1), harness.attempt(2)
    await harness.admit(first)
    harness.store.leases = True
    await harness.admit(second)
    beating = asyncio.ensure_future(harness.admission.extend_reservations())
    await asyncio.sleep(9)
    harness.store.extend_delay = 2.0
    await asyncio.sleep(2)
    harness.end(second, ANSWERED)
    await asyncio.sleep(5)
    assert await harness.level(COUNTER) == CounterLevel(COST, WORST)
    beating.cancel()
