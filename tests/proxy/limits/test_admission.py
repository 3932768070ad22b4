import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import pytest

from proxy.errors import ProxyError, Unready
from proxy.limits.refusals import OverBudget
from proxy.receipt import Outcome
from proxy.settle import Attempt, End
from slo.budget import Budget, Hold, OnLoss, Unit
from slo.reservations import Level
from slo.usage import Usage
from slo.window import Window
from tests.fakes.clock import played
from tests.fakes.limited import BODY, WORST, Office, budget

COUNTER = "b/team/usd/2026-09-21/acme"
USED = Usage(input=10, output=100)
ANSWERED = End(outcome=Outcome.ANSWERED, status=200, usage=USED)
COST = 10 * 1_000 + 100 * 4_000


def told(story: Callable[[Office], Awaitable[None]], *budgets: Budget) -> None:
    async def run() -> None:
        await story(Office(*budgets))

    played(run())


async def until_refused(office: Office, why: type[ProxyError]) -> list[Attempt]:
    """The attempts that are admitted before one is not."""
    admitted: list[Attempt] = []
    with suppress(why):
        while len(admitted) < 100:
            attempt = office.attempt(100 + len(admitted))
            await office.admit(attempt)
            admitted.append(attempt)
    return admitted


async def settled(office: Office) -> None:
    await office.admission.drained()


def test_what_a_call_may_cost_is_held_until_its_receipt_says_what_it_cost():
    async def story(office: Office) -> None:
        attempt = office.attempt(1)
        await office.admit(attempt)
        assert await office.level(COUNTER) == Level(0, WORST)

        office.end(attempt, ANSWERED)
        await settled(office)
        assert await office.level(COUNTER) == Level(COST, 0)

    told(story, budget())


def test_settling_makes_nobody_wait():
    async def story(office: Office) -> None:
        attempt = office.attempt(1)
        await office.admit(attempt)
        office.store.is_lost = True
        office.end(attempt, ANSWERED)

        await asyncio.sleep(1)
        assert await office.level(COUNTER) == Level(0, WORST)
        office.store.is_lost = False
        await settled(office)
        assert await office.level(COUNTER) == Level(COST, 0)

    told(story, budget())


def test_of_many_calls_at_once_those_that_fit_are_admitted():
    async def story(office: Office) -> None:
        tries = (office.admit(office.attempt(number)) for number in range(50))
        found = await asyncio.gather(*tries, return_exceptions=True)

        assert sum(isinstance(each, OverBudget) for each in found) == 40

    told(story, budget())


def test_a_call_that_does_not_fit_one_budget_holds_nothing_of_the_other():
    async def story(office: Office) -> None:
        with pytest.raises(OverBudget) as refused:
            await office.admit(office.attempt(1))

        assert refused.value.details["budget"] == "calls"
        assert await office.level(COUNTER) == Level(0, 0)

    calls = budget(
        name="calls", unit=Unit.TOKENS, window=Window.MINUTE, limit=1000, scope="organization"
    )
    told(story, budget(), calls)


@pytest.mark.parametrize(
    "end",
    [
        End(outcome=Outcome.FAILED, status=502, error="x"),
        End(outcome=Outcome.HUNG_UP, status=499, error="x"),
    ],
)
def test_what_used_nothing_costs_nothing(end):
    async def story(office: Office) -> None:
        attempt = office.attempt(1)
        await office.admit(attempt)
        office.end(attempt, end)
        await settled(office)
        assert await office.level(COUNTER) == Level(0, 0)

    told(story, budget())


def test_what_was_estimated_is_spent():
    async def story(office: Office) -> None:
        attempt = office.attempt(1)
        await office.admit(attempt)
        office.end(
            attempt, msgspec.structs.replace(ANSWERED, outcome=Outcome.BROKEN, estimated=True)
        )
        await settled(office)
        assert await office.level(COUNTER) == Level(COST, 0)

    told(story, budget())


def test_a_call_counts_as_one_request_however_many_attempts_it_takes():
    async def story(office: Office) -> None:
        first = office.attempt(1)
        second = msgspec.structs.replace(first, number=1)
        await office.admit(first)
        office.end(first, End(outcome=Outcome.FAILED, status=502, final=False))
        await office.admit(second)
        office.end(second, ANSWERED)
        await settled(office)
        assert await office.level("b/team/requests/2026-09-21T14:13/acme") == Level(1, 0)

    told(story, budget(unit=Unit.REQUESTS, window=Window.MINUTE, limit=1))


def test_what_is_held_lasts_as_long_as_the_call():
    async def story(office: Office) -> None:
        beating = asyncio.ensure_future(office.admission.beat())
        attempt = office.attempt(1)
        await office.admit(attempt)
        await asyncio.sleep(600)
        assert await office.level(COUNTER) == Level(0, WORST)
        beating.cancel()
        await asyncio.sleep(61)
        assert await office.level(COUNTER) == Level(0, 0)

    told(story, budget())


def test_a_caller_that_leaves_while_its_call_is_admitted_spends_nothing():
    async def story(office: Office) -> None:
        attempt = office.attempt(1)
        admitting = asyncio.ensure_future(office.admit(attempt))
        await asyncio.sleep(0)
        admitting.cancel()
        with suppress(asyncio.CancelledError):
            await admitting
        office.end(attempt, ANSWERED)
        await settled(office)
        assert await office.level(COUNTER) == Level(0, 0)

    told(story, budget())


def test_lengths_are_learned_and_the_likely_is_held():
    async def story(office: Office) -> None:
        for number in range(30):
            attempt = office.attempt(number)
            await office.admit(attempt)
            office.end(attempt, ANSWERED)
            await settled(office)
        before = await office.level(COUNTER)
        await office.admit(office.attempt(99))
        after = await office.level(COUNTER)

        assert 0 < after.held - before.held < WORST / 5

    told(story, budget(hold=Hold.P95, limit=1000 * WORST))


def test_near_the_limit_the_worst_case_is_held():
    async def story(office: Office) -> None:
        for number in range(30):
            attempt = office.attempt(number)
            await office.admit(attempt)
            office.end(attempt, ANSWERED)
            await settled(office)
        spent = (await office.level(COUNTER)).spent
        assert spent == 30 * COST
        admitted = await until_refused(office, OverBudget)
        level = await office.level(COUNTER)
        assert level.spent + level.held <= 6 * WORST
        assert len(admitted) >= 2

    told(story, budget(hold=Hold.P95, limit=6 * WORST))


def test_a_large_prompt_is_counted_and_a_small_one_is_not():
    async def story(office: Office) -> None:
        await office.admit(office.attempt(1))
        assert office.estimator.delivered == []
        large = BODY.replace(b"[]", b'["' + b"x" * 20_000 + b'"]')
        await office.admit(office.attempt(2, large))
        assert len(office.estimator.delivered) == 1

    told(story, budget())


def test_minutes_are_told_in_headers():
    async def story(office: Office) -> None:
        assert await office.admit(office.attempt(1)) == {
            "x-ratelimit-limit-requests": "5",
            "x-ratelimit-remaining-requests": "4",
            "x-ratelimit-reset-requests": "40s",
        }

    told(story, budget(unit=Unit.REQUESTS, window=Window.MINUTE, limit=5))


def test_without_a_budget_that_counts_the_call_nothing_is_asked():
    async def story(office: Office) -> None:
        assert await office.admit(office.attempt(1)) == {}
        assert office.store.asked == 0

    told(story, budget(of="other"))


def test_without_counters_calls_pass_where_the_budget_is_open():
    async def story(office: Office) -> None:
        office.store.is_lost = True
        assert await office.admit(office.attempt(1)) == {}

    told(story, budget(on_loss=OnLoss.OPEN))


def test_without_counters_calls_are_told_to_come_back_where_the_budget_is_closed():
    async def story(office: Office) -> None:
        office.store.is_lost = True
        with pytest.raises(Unready) as refused:
            await office.admit(office.attempt(1))
        assert refused.value.retry_after == 2.0

    told(story, budget(on_loss=OnLoss.CLOSED))


def test_counters_that_were_lost_are_asked_again_a_little_later():
    async def story(office: Office) -> None:
        office.store.is_lost = True
        for number in range(5):
            await office.admit(office.attempt(number))
        assert office.store.asked == 2
        office.store.is_lost = False
        await asyncio.sleep(1.1)
        await office.admit(office.attempt(9))
        assert office.store.asked == 3

    told(story, budget(on_loss=OnLoss.OPEN))


def test_without_counters_each_process_spends_a_part_of_what_was_left():
    async def story(office: Office) -> None:
        await office.admit(office.attempt(0))
        office.store.is_lost = True
        admitted = await until_refused(office, Unready)
        assert len(admitted) == 3
        office.store.is_lost = False
        for attempt in admitted:
            office.end(attempt, ANSWERED)
        await settled(office)
        assert await office.level(COUNTER) == Level(3 * COST, WORST)

    told(story, budget(on_loss=OnLoss.LOCAL_QUOTA, limit=31 * WORST))
