"""A call that budgets admit holds what it may use, and spends what it used."""

import asyncio
from contextlib import suppress

import msgspec
import pytest

from proxy.calls.metering.settlement import AttemptOutcome
from proxy.errors import CallerError
from proxy.records.receipt import Outcome
from slo.budgets.budget import BudgetUnit, HoldPolicy
from slo.budgets.counter import CounterLevel
from slo.usage import Usage
from slo.window import Window
from tests.fakes.admission_harness import BODY, WORST, AdmissionHarness, budget
from tests.fakes.admission_scenarios import (
    ANSWERED,
    COST,
    COUNTER,
    run_scenario,
    wait_until_settled,
)
from tests.fakes.refusals import refusing

pytestmark = pytest.mark.instant_time


async def test_a_calls_worst_cost_is_held_until_its_receipt_has_the_real_one():
    harness = AdmissionHarness(budget())
    attempt = harness.attempt(1)
    await harness.admit(attempt)
    assert await harness.level(COUNTER) == CounterLevel(0, WORST)

    harness.end(attempt, ANSWERED)
    await wait_until_settled(harness)
    assert await harness.level(COUNTER) == CounterLevel(COST, 0)


async def test_settling_makes_nobody_wait():
    harness = AdmissionHarness(budget())
    attempt = harness.attempt(1)
    await harness.admit(attempt)
    harness.store.is_lost = True
    harness.end(attempt, ANSWERED)

    await asyncio.sleep(1)
    assert await harness.level(COUNTER) == CounterLevel(0, WORST)
    harness.store.is_lost = False
    await wait_until_settled(harness)
    assert await harness.level(COUNTER) == CounterLevel(COST, 0)


async def test_of_many_calls_at_once_those_that_fit_are_admitted():
    harness = AdmissionHarness(budget())
    tries = (harness.admit(harness.attempt(number)) for number in range(50))
    results = await asyncio.gather(*tries, return_exceptions=True)

    assert sum(isinstance(result, CallerError) for result in results) == 40
    assert {result.status for result in results if isinstance(result, CallerError)} == {429}


async def test_compactions_are_held_as_answers_are():
    harness = AdmissionHarness(budget())
    some = [harness.attempt(number, endpoint="responses/compact") for number in range(50)]
    results = await asyncio.gather(*map(harness.admit, some), return_exceptions=True)

    assert 40 <= sum(isinstance(result, CallerError) for result in results) < 50


def test_a_call_that_does_not_fit_one_budget_holds_nothing_of_the_other():
    async def story(harness: AdmissionHarness) -> None:
        with refusing(429) as refused:
            await harness.admit(harness.attempt(1))

        assert refused.value.details["budget"] == "calls"
        assert await harness.level(COUNTER) == CounterLevel(0, 0)

    calls = budget(
        name="calls", unit=BudgetUnit.TOKENS, window=Window.MINUTE, limit=1000, scope="organization"
    )
    run_scenario(story, budget(), calls)


@pytest.mark.parametrize(
    "end",
    [
        AttemptOutcome(outcome=Outcome.FAILED, status=502, error="x"),
        AttemptOutcome(outcome=Outcome.HUNG_UP, status=499, error="x"),
    ],
)
async def test_a_call_without_usage_costs_nothing(end):
    harness = AdmissionHarness(budget())
    attempt = harness.attempt(1)
    await harness.admit(attempt)
    harness.end(attempt, end)
    await wait_until_settled(harness)
    assert await harness.level(COUNTER) == CounterLevel(0, 0)


async def test_estimated_usage_is_spent():
    harness = AdmissionHarness(budget())
    attempt = harness.attempt(1)
    await harness.admit(attempt)
    harness.end(attempt, msgspec.structs.replace(ANSWERED, outcome=Outcome.BROKEN, estimated=True))
    await wait_until_settled(harness)
    assert await harness.level(COUNTER) == CounterLevel(COST, 0)


async def test_a_call_counts_as_one_request_however_many_attempts_it_takes():
    harness = AdmissionHarness(budget(unit=BudgetUnit.REQUESTS, window=Window.MINUTE, limit=1))
    first = harness.attempt(1)
    second = msgspec.structs.replace(first, number=1)
    await harness.admit(first)
    harness.end(first, AttemptOutcome(outcome=Outcome.FAILED, status=502, final=False))
    await harness.admit(second)
    harness.end(second, ANSWERED)
    await wait_until_settled(harness)
    assert await harness.level("b/team/requests/2026-09-21T14:13/acme") == CounterLevel(1, 0)


async def test_a_reservation_lasts_as_long_as_the_call():
    harness = AdmissionHarness(budget())
    beating = asyncio.ensure_future(harness.admission.extend_reservations())
    attempt = harness.attempt(1)
    await harness.admit(attempt)
    await asyncio.sleep(605)
    assert harness.store.extended == 60, "every ten seconds"
    assert await harness.level(COUNTER) == CounterLevel(0, WORST)
    beating.cancel()
    await asyncio.sleep(61)
    assert await harness.level(COUNTER) == CounterLevel(0, 0)


async def test_a_caller_that_leaves_while_its_call_is_admitted_spends_nothing():
    harness = AdmissionHarness(budget())
    attempt = harness.attempt(1)
    admitting = asyncio.ensure_future(harness.admit(attempt))
    await asyncio.sleep(0)
    admitting.cancel()
    with suppress(asyncio.CancelledError):
        await admitting
    harness.end(attempt, ANSWERED)
    await wait_until_settled(harness)
    assert await harness.level(COUNTER) == CounterLevel(0, 0)


async def test_a_large_prompt_is_counted_and_a_small_one_is_not():
    harness = AdmissionHarness(budget())
    await harness.admit(harness.attempt(1))
    assert harness.estimator.delivered == []
    large = BODY.replace(b"[]", b'["' + b"x" * 20_000 + b'"]')
    await harness.admit(harness.attempt(2, large))
    assert len(harness.estimator.delivered) == 1


async def test_minutes_are_reported_in_headers():
    harness = AdmissionHarness(budget(unit=BudgetUnit.REQUESTS, window=Window.MINUTE, limit=5))
    assert await harness.admit(harness.attempt(1)) == {
        "x-ratelimit-limit-requests": "5",
        "x-ratelimit-remaining-requests": "4",
        "x-ratelimit-reset-requests": "40s",
    }


async def test_without_a_budget_that_counts_the_call_nothing_is_asked():
    harness = AdmissionHarness(budget(of="other"))
    assert await harness.admit(harness.attempt(1)) == {}
    assert harness.store.asked == 0


async def test_a_call_that_is_still_asking_is_not_held_by_a_beat():
    harness = AdmissionHarness(budget(limit=WORST))
    await harness.admit(harness.attempt(0))
    harness.store.delay = 15.0
    beating = asyncio.ensure_future(harness.admission.extend_reservations())
    with refusing(429):
        await harness.admit(harness.attempt(1))
    assert await harness.level(COUNTER) == CounterLevel(0, WORST)
    beating.cancel()


@pytest.mark.parametrize(
    ("endpoint", "body", "param"),
    [
        ("chat/completions", BODY, "max_completion_tokens"),
        ("chat/completions", BODY.replace(b"max_completion_", b"max_"), "max_tokens"),
        ("responses", b'{"model":"m","input":""}', "max_output_tokens"),
        ("chat/completions", BODY.replace(b"[]", b'["' + b"x" * 9_000 + b'"]'), None),
        ("embeddings", b'{"model":"m","input":"' + b"x" * 9_000 + b'"}', None),
    ],
)
async def test_a_call_that_never_fits_is_told_which_of_its_fields_to_lower(endpoint, body, param):
    harness = AdmissionHarness(budget(limit=900000))
    with refusing(429) as refused:
        await harness.admit(harness.attempt(1, body, endpoint=endpoint))
    assert (refused.value.param, refused.value.retry_after) == (param, None)


@pytest.mark.parametrize(
    ("unit", "worst"), [(BudgetUnit.USD, 4_014_000), (BudgetUnit.TOKENS, 1014)]
)
@pytest.mark.parametrize("hold", HoldPolicy)
async def test_a_call_left_half_way_settles_at_its_receipt_but_where_the_worst_case_is_held(
    hold, unit, worst
):
    harness = AdmissionHarness(budget(hold=hold, unit=unit, limit=1000 * WORST))
    attempt = harness.attempt(1)
    await harness.admit(attempt)
    noted = msgspec.structs.replace(attempt, notes=("abandoned: 7 output tokens are counted",))

    receipt = harness.end(
        noted,
        AttemptOutcome(
            outcome=Outcome.HUNG_UP, status=499, usage=Usage(input=14, output=7), estimated=True
        ),
    )
    await wait_until_settled(harness)
    likely = (receipt.cost_nanos or 0) if unit is BudgetUnit.USD else 21
    spent = worst if hold is HoldPolicy.WORST else likely
    assert await harness.level(COUNTER.replace("usd", unit)) == CounterLevel(spent, 0)
