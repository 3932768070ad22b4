"""Tests of what calls hold once it was learned how long answers are, and until then."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from proxy.errors import CallerError
from slo.budgets.budget import HoldPolicy
from slo.budgets.counter import CounterLevel, ReservationRefused
from tests.fakes.admission_harness import (
    BODY,
    ROUTE,
    WORST,
    AdmissionHarness,
    LosableBudgetStore,
    budget,
)
from tests.fakes.admission_scenarios import (
    ANSWERED,
    COST,
    COUNTER,
    admit_until_refused,
    answer_thirty_calls,
    wait_until_settled,
)
from tests.fakes.refusals import refusing

pytestmark = pytest.mark.instant_time


async def test_lengths_are_learned_and_the_likely_is_held():
    harness = AdmissionHarness(budget(hold=HoldPolicy.P95, limit=1000 * WORST))
    await answer_thirty_calls(harness)
    before = await harness.level(COUNTER)
    await harness.admit(harness.attempt(99))
    after = await harness.level(COUNTER)

    assert 0 < after.held - before.held < WORST / 5


async def test_near_the_limit_the_worst_case_is_held():
    harness = AdmissionHarness(budget(hold=HoldPolicy.P95, limit=6 * WORST))
    await answer_thirty_calls(harness)
    spent = (await harness.level(COUNTER)).spent
    assert spent == 30 * COST
    admitted = await admit_until_refused(harness, CallerError)
    level = await harness.level(COUNTER)
    assert level.spent + level.held <= 6 * WORST
    assert len(admitted) >= 2


async def test_many_holds_that_have_ended_make_no_call_hold_more_than_it_can_cost():
    harness = AdmissionHarness(budget(hold=HoldPolicy.P95, limit=20 * WORST))
    await answer_thirty_calls(harness)
    admitted = await admit_until_refused(harness, CallerError)
    with refusing(429) as refused:
        await harness.admit(harness.attempt(999))
    assert refused.value.details["predicted"] == "0.004014"
    assert refused.value.retry_after is not None
    assert refused.value.retry_after <= 60
    for attempt in admitted:
        harness.end(attempt, ANSWERED)
    await wait_until_settled(harness)
    assert (await harness.level(COUNTER)).held == 0

    await harness.admit(harness.attempt(1000))
    assert 0 < (await harness.level(COUNTER)).held <= WORST


async def test_an_old_reading_of_held_amounts_is_not_used():
    harness = AdmissionHarness(budget(hold=HoldPolicy.P95, limit=20 * WORST))
    await answer_thirty_calls(harness)
    for attempt in await admit_until_refused(harness, CallerError):
        harness.end(attempt, ANSWERED)
    await wait_until_settled(harness)
    await asyncio.sleep(4)

    for number in range(1000, 1005):
        await harness.admit(harness.attempt(number))
    assert (await harness.level(COUNTER)).held < WORST


async def test_calls_that_name_no_limit_hold_their_worst_case_until_something_is_learned():
    harness = AdmissionHarness(budget(hold=HoldPolicy.P95, limit=5000000000))
    unlimited = replace(ROUTE, max_output=128_000)
    body = BODY.replace(b',"max_completion_tokens":1000', b"")
    worst = 128_000 * 4_000 + 7 * 1_000
    for number in range(9):
        await harness.admit(harness.attempt(number, body, unlimited))
    assert await harness.level(COUNTER) == CounterLevel(0, 9 * worst)
    with refusing(429) as refused:
        await harness.admit(harness.attempt(9, body, unlimited))
    assert refused.value.retry_after


class ContradictingStore(LosableBudgetStore):
    """Counters that refuse every claim, and report a level by which it would fit."""

    async def reserve(self, *args: Any, **kwargs: Any) -> ReservationRefused:
        self.asked += 1
        return ReservationRefused(0, CounterLevel(0, 0), None)


async def test_a_reservation_is_tried_four_times_with_what_the_refusal_before_it_reported():
    harness = AdmissionHarness(budget())
    store = harness.admission.counters = ContradictingStore()
    with refusing(429):
        await harness.admit(harness.attempt(1))

    assert store.asked == 4
