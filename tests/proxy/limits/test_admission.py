import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest

from proxy.catalog.entries import Catalog, Model
from proxy.errors import ProxyError, Unready
from proxy.limits.refusals import OverBudget
from proxy.receipt import Outcome
from proxy.settle import Attempt, End
from slo.budget import Budget, Hold, OnLoss, Unit, Unpriced
from slo.price import Period, Rates, Sheet, Tariff
from slo.reservations import Level
from slo.usage import Usage
from slo.window import Window
from tests.fakes.ceilinged import model
from tests.fakes.clock import played
from tests.fakes.limited import BODY, ROUTE, WORST, Office, budget

COUNTER = "b/team/usd/2026-09-21/acme"
USED = Usage(input=10, output=100)
ANSWERED = End(outcome=Outcome.ANSWERED, status=200, usage=USED)
COST = 10 * 1_000 + 100 * 4_000

#: A model of the same provider at a quarter of the price.
CHEAP = model("cheap", 1_000)
TOWN = Catalog(
    models={"m": Model(id="m", routes=(ROUTE,)), "cheap": CHEAP}, upstreams={}, default=ROUTE
)
FREE = Period(sheets={"": Sheet(rates=Rates(input=0, output=0))})


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


def test_compactions_are_held_as_answers_are():
    async def story(office: Office) -> None:
        some = [office.attempt(number, endpoint="responses/compact") for number in range(50)]
        found = await asyncio.gather(*map(office.admit, some), return_exceptions=True)

        assert 40 <= sum(isinstance(each, OverBudget) for each in found) < 50

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


async def learned(office: Office) -> None:
    """Thirty short answers."""
    for number in range(30):
        attempt = office.attempt(number)
        await office.admit(attempt)
        office.end(attempt, ANSWERED)
        await settled(office)


def test_many_holds_that_have_ended_make_no_call_hold_more_than_it_can_cost():
    async def story(office: Office) -> None:
        await learned(office)
        admitted = await until_refused(office, OverBudget)
        with pytest.raises(OverBudget) as refused:
            await office.admit(office.attempt(999))
        assert refused.value.details["predicted"] == "0.004014"
        assert refused.value.retry_after is not None
        assert refused.value.retry_after <= 60
        for attempt in admitted:
            office.end(attempt, ANSWERED)
        await settled(office)
        assert (await office.level(COUNTER)).held == 0

        await office.admit(office.attempt(1000))
        assert 0 < (await office.level(COUNTER)).held <= WORST

    told(story, budget(hold=Hold.P95, limit=20 * WORST))


def test_what_was_held_long_ago_is_not_taken_to_be_held():
    async def story(office: Office) -> None:
        await learned(office)
        for attempt in await until_refused(office, OverBudget):
            office.end(attempt, ANSWERED)
        await settled(office)
        await asyncio.sleep(4)

        for number in range(1000, 1005):
            await office.admit(office.attempt(number))
        assert (await office.level(COUNTER)).held < WORST

    told(story, budget(hold=Hold.P95, limit=20 * WORST))


def test_calls_that_name_no_limit_hold_their_worst_case_until_something_is_learned():
    async def story(office: Office) -> None:
        unlimited = replace(ROUTE, max_output=128_000)
        body = BODY.replace(b',"max_completion_tokens":1000', b"")
        worst = 128_000 * 4_000 + 7 * 1_000
        for number in range(9):
            await office.admit(office.attempt(number, body, unlimited))
        assert await office.level(COUNTER) == Level(0, 9 * worst)
        with pytest.raises(OverBudget) as refused:
            await office.admit(office.attempt(9, body, unlimited))
        assert refused.value.retry_after

    told(story, budget(hold=Hold.P95, limit=5_000_000_000))


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


def test_emptied_counters_are_as_good_as_away_where_the_budget_is_closed_and_asked_every_time():
    async def story(office: Office) -> None:
        office.store.forget()
        for number in range(3):
            with pytest.raises(Unready) as refused:
                await office.admit(office.attempt(number))
            assert refused.value.code == "budgets_unavailable"
        assert office.store.asked == 3
        assert await office.level(COUNTER) == Level(0, 0)

        office.store.mend()
        await office.admit(office.attempt(9))
        assert await office.level(COUNTER) == Level(0, WORST)

    told(story, budget(on_loss=OnLoss.CLOSED), budget(name="other", on_loss=OnLoss.OPEN))


@pytest.mark.parametrize("fields", [{"on_loss": OnLoss.OPEN}, {"hard": False}])
def test_emptied_counters_still_count_where_nothing_is_closed(fields):
    async def story(office: Office) -> None:
        office.store.forget()
        await office.admit(office.attempt(1))
        assert await office.level(COUNTER) == Level(0, WORST)

    told(story, budget(**fields))


def test_with_emptied_counters_each_process_spends_a_part_of_what_was_left():
    async def story(office: Office) -> None:
        await office.admit(office.attempt(0))
        office.store.forget()
        admitted = await until_refused(office, Unready)
        assert len(admitted) == 3
        for attempt in admitted:
            office.end(attempt, ANSWERED)
        await settled(office)
        assert await office.level(COUNTER) == Level(3 * COST, 0)

    told(story, budget(on_loss=OnLoss.LOCAL_QUOTA, limit=31 * WORST))


def test_emptied_counters_soon_know_again_what_is_held_for_calls_under_way():
    async def story(office: Office) -> None:
        beating = asyncio.ensure_future(office.admission.beat())
        attempts = [office.attempt(number) for number in range(10)]
        for attempt in attempts:
            await office.admit(attempt)
        office.store.forget()
        office.end(attempts.pop(), ANSWERED)
        await asyncio.sleep(11)
        assert await office.level(COUNTER) == Level(COST, 9 * WORST)
        office.store.mend()
        with pytest.raises(OverBudget):
            await office.admit(office.attempt(10))

        for attempt in attempts:
            office.end(attempt, ANSWERED)
        await settled(office)
        assert await office.level(COUNTER) == Level(10 * COST, 0)
        beating.cancel()

    told(story, budget())


def test_a_call_that_is_still_asking_is_not_held_by_a_beat():
    async def story(office: Office) -> None:
        await office.admit(office.attempt(0))
        office.store.delay = 15.0
        beating = asyncio.ensure_future(office.admission.beat())
        with pytest.raises(OverBudget):
            await office.admit(office.attempt(1))
        assert await office.level(COUNTER) == Level(0, WORST)
        beating.cancel()

    told(story, budget(limit=WORST))


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


SOLD = replace(ROUTE, tariff=None, upstream=replace(ROUTE.upstream, key_env="KEY"))


@pytest.mark.parametrize("endpoint", ["chat/completions", "images/generations"])
def test_a_hard_budget_of_dollars_is_not_passed_by_what_is_sold_at_an_unknown_price(endpoint):
    async def story(office: Office) -> None:
        with pytest.raises(OverBudget) as refused:
            await office.admit(office.attempt(1, over=SOLD, endpoint=endpoint))
        error = refused.value
        assert (error.code, error.is_worth_retrying) == ("price_unknown", False)
        assert error.details == {"budget": "b", "scope": "team", "of": "acme", "upstream": "one"}
        assert "The budget `b` limits dollars" in error.message
        assert await office.level(COUNTER) == Level(0, 0)

    told(story, budget())


@pytest.mark.parametrize(
    ("over", "fields"),
    [
        (SOLD, {"unpriced": Unpriced.ALLOW}),
        (SOLD, {"hard": False}),
        (SOLD, {"unit": Unit.TOKENS, "limit": 10_000}),
        (replace(ROUTE, tariff=None), {}),
        (replace(SOLD, tariff=Tariff(periods=(FREE,))), {"unpriced": Unpriced.REFUSE}),
    ],
)
def test_a_call_at_an_unknown_price_passes_where_that_is_meant_and_at_none_always(over, fields):
    async def story(office: Office) -> None:
        await office.admit(office.attempt(1, over=over))

    told(story, budget(**fields))


def test_what_is_known_to_cost_nothing_passes():
    async def story(office: Office) -> None:
        await office.admit(office.attempt(1, over=SOLD, endpoint="files"))

    told(story, budget())


def test_what_an_attempt_may_cost_is_what_it_may_cost_on_its_own_route():
    async def story(office: Office) -> None:
        dear = msgspec.structs.replace(office.attempt(1), number=0)
        await office.admit(dear)
        office.end(dear, End(outcome=Outcome.FAILED, status=502, final=False))
        await settled(office)
        other = replace(CHEAP.routes[0], max_output=500)
        await office.admit(msgspec.structs.replace(dear, route=other, number=1))
        assert await office.level(COUNTER) == Level(0, (14 + 500) * 1_000)

    told(story, budget())


def test_a_refusal_names_a_model_with_which_the_call_would_fit():
    async def run() -> None:
        office = Office(budget(limit=2 * WORST + COST - 1), known=TOWN)
        first, second = office.attempt(1), office.attempt(2)
        await office.admit(first)
        office.end(first, ANSWERED)
        await settled(office)
        await office.admit(second)
        with pytest.raises(OverBudget) as refused:
            await office.admit(office.attempt(3))
        found = {"model": "cheap", "predicted": "0.001014"}
        assert refused.value.details["cheapest_alternative"] == found
        assert "On `cheap` it may cost $0.001014 and fits." in refused.value.message

    played(run())


def test_a_refusal_of_tokens_names_no_other_model():
    async def run() -> None:
        office = Office(budget(limit=5, unit=Unit.TOKENS), known=TOWN)
        with pytest.raises(OverBudget) as refused:
            await office.admit(office.attempt(1))
        assert refused.value.details["cheapest_alternative"] is None

    played(run())
