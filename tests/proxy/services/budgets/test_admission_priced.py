"""Tests of what calls are admitted by their prices, known and unknown, on each of their routes."""

from dataclasses import replace

import msgspec
import pytest

from proxy.calls.metering.settlement import AttemptOutcome
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.records.receipt import Outcome
from slo.budgets.budget import BudgetUnit, HoldPolicy, UnpricedPolicy
from slo.budgets.counter import CounterLevel
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from tests.fakes.admission_harness import BODY, ROUTE, WORST, AdmissionHarness, budget
from tests.fakes.admission_scenarios import (
    ANSWERED,
    COST,
    COUNTER,
    run_scenario,
    wait_until_settled,
)
from tests.fakes.ceiling_harness import model
from tests.fakes.refusals import refusing

pytestmark = pytest.mark.instant_time


#: A model of the same provider at a quarter of the price.
CHEAP = model("cheap", 1_000)
CATALOG = Catalog(
    models={"m": Model(id="m", routes=(ROUTE,)), "cheap": CHEAP}, upstreams={}, default=ROUTE
)
FREE = PricePeriod(sheets={"": PriceSheet(rates=TokenRates(input=0, output=0))})
SOLD = replace(ROUTE, tariff=None, upstream=replace(ROUTE.upstream, key_env="KEY"))


@pytest.mark.parametrize("endpoint", ["chat/completions", "images/generations"])
async def test_a_hard_budget_of_dollars_is_not_passed_by_what_is_sold_at_an_unknown_price(endpoint):
    harness = AdmissionHarness(budget())
    with refusing(400) as refused:
        await harness.admit(harness.attempt(1, over=SOLD, endpoint=endpoint))
    error = refused.value
    assert (error.code, error.is_worth_retrying) == ("price_unknown", False)
    assert error.details == {"budget": "b", "scope": "team", "of": "acme", "upstream": "one"}
    assert "The budget `b` limits dollars" in error.message
    assert await harness.level(COUNTER) == CounterLevel(0, 0)


@pytest.mark.parametrize(
    ("over", "fields"),
    [
        (SOLD, {"unpriced": UnpricedPolicy.ALLOW}),
        (SOLD, {"hard": False}),
        (SOLD, {"unit": BudgetUnit.TOKENS, "limit": 10_000}),
        (replace(ROUTE, tariff=None), {}),
        (replace(SOLD, tariff=Tariff(periods=(FREE,))), {"unpriced": UnpricedPolicy.REFUSE}),
    ],
)
async def test_a_call_at_an_unknown_price_passes_where_that_is_meant_and_at_none_always(
    over, fields
):
    harness = AdmissionHarness(budget(**fields))
    await harness.admit(harness.attempt(1, over=over))


LATER = b'{"model":"m","input":"x","background":true,"max_output_tokens":1000}'
KEYED = replace(ROUTE, upstream=replace(ROUTE.upstream, key_env="KEY"))


@pytest.mark.parametrize(
    ("over", "fields", "code"),
    [
        (KEYED, {}, "price_unknown"),
        (KEYED, {"unit": BudgetUnit.TOKENS, "limit": 10_000}, "usage_unknown"),
        (ROUTE, {"unit": BudgetUnit.TOKENS, "limit": 10_000}, "usage_unknown"),
    ],
)
async def test_a_hard_budget_is_not_passed_in_the_background(over, fields, code):
    limit = budget(**fields)

    harness = AdmissionHarness(limit)
    with refusing(400) as refused:
        await harness.admit(harness.attempt(1, LATER, over, endpoint="responses"))
    assert (refused.value.code, refused.value.param) == (code, "background")
    assert await harness.level(COUNTER.replace("usd", limit.unit.value)) == CounterLevel(0, 0)
    at_once = LATER.replace(b"true", b"false")
    await harness.admit(harness.attempt(2, at_once, over, endpoint="responses"))


@pytest.mark.parametrize(
    ("over", "fields"),
    [
        (KEYED, {"unpriced": UnpricedPolicy.ALLOW}),
        (KEYED, {"hard": False}),
        (KEYED, {"unit": BudgetUnit.TOKENS, "limit": 10_000, "hard": False}),
        (KEYED, {"unit": BudgetUnit.REQUESTS, "limit": 10}),
        (ROUTE, {}),
        (replace(KEYED, tariff=Tariff(periods=(FREE,))), {"unpriced": UnpricedPolicy.REFUSE}),
    ],
)
async def test_a_call_in_the_background_passes_where_that_is_meant(over, fields):
    harness = AdmissionHarness(budget(**fields))
    await harness.admit(harness.attempt(1, LATER, over, endpoint="responses"))


async def test_a_call_that_is_known_to_be_free_is_admitted():
    harness = AdmissionHarness(budget())
    await harness.admit(harness.attempt(1, over=SOLD, endpoint="files"))


async def test_an_attempts_worst_cost_is_priced_on_its_own_route():
    harness = AdmissionHarness(budget())
    dear = msgspec.structs.replace(harness.attempt(1), number=0)
    await harness.admit(dear)
    harness.end(dear, AttemptOutcome(outcome=Outcome.FAILED, status=502, final=False))
    await wait_until_settled(harness)
    other = replace(CHEAP.routes[0], max_output=500)
    await harness.admit(msgspec.structs.replace(dear, route=other, number=1))
    assert await harness.level(COUNTER) == CounterLevel(0, (len(BODY) + 256 + 500) * 1_000)


DOUBLED = PricePeriod(
    sheets={
        "": PriceSheet(rates=TokenRates(input=1_000_000_000, output=4_000_000_000)),
        "flex": PriceSheet(rates=TokenRates(input=500_000_000, output=2_000_000_000)),
        "priority": PriceSheet(rates=TokenRates(input=2_000_000_000, output=8_000_000_000)),
    }
)


@pytest.mark.parametrize(
    ("tier", "times"),
    [(b"", 2), (b'"auto"', 2), (b"null", 2), (b'"default"', 1), (b'"priority"', 2)],
)
async def test_the_worst_is_the_dearest_tier_where_a_call_leaves_the_tier_open(tier, times):
    body = BODY[:-1] + b',"service_tier":%b}' % tier if tier else BODY
    tiered = replace(ROUTE, tariff=Tariff(periods=(DOUBLED,)))

    harness = AdmissionHarness(budget())
    await harness.admit(harness.attempt(1, body, tiered))
    level = await harness.level(COUNTER)
    assert level.held == times * (WORST + (len(body) - len(BODY)) * 1_000)


PICTURE = (
    b'{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":'
    b'{"url":"https://a/b"}}]}],"max_completion_tokens":1000}'
)


async def test_a_budget_that_holds_the_worst_holds_each_byte_of_a_small_prompt_as_a_token():
    body = BODY.replace(b"[]", b'[{"role":"user","content":"' + b"4," * 4_000 + b'"}]')

    harness = AdmissionHarness(budget(limit=100 * WORST))
    await harness.admit(harness.attempt(1, body))
    level = await harness.level(COUNTER)
    assert level.held == (len(body) + 256) * 1_000 + 1_000 * 4_000


def test_a_prompt_that_lies_elsewhere_may_fill_the_window_and_only_the_worst_holds_that():
    over = replace(ROUTE, window=200_000)

    async def story(harness: AdmissionHarness) -> None:
        await harness.admit(harness.attempt(1, PICTURE, over))
        assert await harness.level(COUNTER) == CounterLevel(0, 200_000 * 1_000 + 1_000 * 4_000)
        assert (await harness.level(COUNTER.replace("b/", "p/"))).held < WORST

    limit = 100 * WORST
    run_scenario(story, budget(limit=limit), budget(name="p", hold=HoldPolicy.P95, limit=limit))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "usage_unknown"),
        ({"unit": BudgetUnit.TOKENS, "limit": 10_000}, "usage_unknown"),
        ({"hold": HoldPolicy.P95}, ""),
        ({"hard": False}, ""),
        ({"unit": BudgetUnit.REQUESTS, "limit": 10}, ""),
    ],
)
def test_a_prompt_without_a_bound_is_refused_where_the_worst_is_held(fields, code):
    async def story(harness: AdmissionHarness) -> None:
        attempt = harness.attempt(1, PICTURE)
        if not code:
            await harness.admit(attempt)
            return
        with refusing(400) as refused:
            await harness.admit(attempt)
        assert refused.value.code == code

    run_scenario(story, budget(**fields))


async def test_a_prompt_without_a_bound_passes_where_its_tokens_cost_nothing():
    over = replace(ROUTE, tariff=Tariff(periods=(FREE,)))

    harness = AdmissionHarness(budget())
    await harness.admit(harness.attempt(1, PICTURE, over))


async def test_a_refusal_names_a_model_with_which_the_call_would_fit():
    harness = AdmissionHarness(budget(limit=2 * WORST + COST - 1), catalog=CATALOG)
    first, second = harness.attempt(1), harness.attempt(2)
    await harness.admit(first)
    harness.end(first, ANSWERED)
    await wait_until_settled(harness)
    await harness.admit(second)
    with refusing(429) as refused:
        await harness.admit(harness.attempt(3))
    alternative = {"model": "cheap", "predicted": "0.001312"}
    assert refused.value.details["cheapest_alternative"] == alternative
    assert "The model `cheap` would fit: there it may cost $0.001312." in refused.value.message


async def test_a_refusal_of_tokens_names_no_other_model():
    harness = AdmissionHarness(budget(limit=5, unit=BudgetUnit.TOKENS), catalog=CATALOG)
    with refusing(429) as refused:
        await harness.admit(harness.attempt(1))
    assert refused.value.details["cheapest_alternative"] is None
