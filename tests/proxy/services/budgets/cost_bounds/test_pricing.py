from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.eligibility.output_limits import OutputAllowance
from proxy.services.budgets.cost_bounds.pricing import (
    AttemptPrice,
    Prediction,
    dearest_prompt,
    price_attempt,
    served_model,
)
from slo.budgets.reservation_sizing import OutputBounds, PriceQuote
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.usage import Usage
from tests.fakes.admission_harness import NOW
from tests.fakes.call_dependencies import TARIFF, route


def prediction(tokens: int, cached: int = 0, tariff: Tariff | None = TARIFF) -> Prediction:
    return Prediction(
        tokens=tokens,
        cached=cached,
        allowance=OutputAllowance(per_choice=100),
        output=OutputBounds(typical=10, likely=20, worst=100),
        quote=PriceQuote(tariff=tariff, at=NOW),
    )


def worth(price: AttemptPrice | None) -> AttemptPrice:
    assert price is not None
    return price


@pytest.mark.parametrize(
    ("regime", "body", "usage"),
    [
        ("", b"", Usage(input=9)),
        ("openai-interval", b"", Usage(input=9)),
        ("openai-breakpoint", b"", Usage(write_30m=9)),
        ("anthropic-breakpoint", b"", Usage(input=9)),
        ("anthropic-breakpoint", b'"cache_control":{}', Usage(write_5m=9)),
        ("anthropic-breakpoint", b'"cache_control":{"ttl":"1h"}', Usage(write_1h=9)),
    ],
)
def test_a_prompt_is_taken_to_be_billed_in_the_dearest_way(regime, body, usage):
    assert dearest_prompt(9, route(regime=regime), body) == usage


@pytest.mark.parametrize(
    ("regime", "body"),
    [
        ("", b""),
        ("openai-breakpoint", b""),
        ("anthropic-breakpoint", b'"cache_control":{}'),
        ("anthropic-breakpoint", b'"cache_control":{"ttl":"1h"}'),
    ],
)
def test_tokens_read_from_a_cache_are_not_priced_as_written_too(regime, body):
    prompt = dearest_prompt(9, route(regime=regime), body, cached=4)

    assert (prompt.cache_read, prompt.prompt_tokens) == (4, 9)


def test_a_warm_prompt_is_cheaper_than_a_cold_one():
    forecast = prediction(1000, cached=900)

    assert worth(price_attempt(forecast, route(), b"")).need.sure == 1000 * 1_000
    assert (
        worth(price_attempt(forecast, route(), b"", warm=True)).need.sure == 100 * 1_000 + 900 * 100
    )


def test_the_cost_of_a_call_is_known_for_every_output_length():
    price = worth(price_attempt(prediction(10), route(), b""))

    assert (price.need.likely, price.need.worst) == (price.cost_with(20), price.cost_with(100))
    assert price.cost_with(0) == price.need.sure == 10_000


def test_a_bucket_without_a_price_is_priced_as_a_plain_prompt():
    price = worth(price_attempt(prediction(10), route(regime="openai-breakpoint"), b""))

    assert price.prompt == Usage(input=10)


def test_without_a_price_nobody_knows_what_it_costs():
    assert price_attempt(prediction(10, tariff=None), route(), b"") is None


def test_without_a_price_for_more_the_worst_case_stands_in():
    need = worth(price_attempt(prediction(10), route(), b"")).need

    assert (
        AttemptPrice(Usage(input=10), PriceQuote(tariff=None, at=NOW), need).cost_with(5)
        == need.worst
    )


@pytest.mark.parametrize(
    ("name", "model"), [("gpu/llama", "llama"), ("gpu/meta/llama#x", "meta/llama"), ("gpu", "")]
)
def test_a_route_names_the_model_it_serves(name, model):
    assert served_model(replace(route(), name=name)) == model


@given(
    st.integers(0, 10**11),
    st.integers(0, 10**11),
    st.fractions(0, 1),
    st.integers(0, 10**6),
    st.lists(st.integers(0, 10**6), min_size=2),
)
def test_more_tokens_never_cost_less_and_costs_are_whole(rate, out, discount, tokens, lengths):
    rates = TokenRates(input=rate, output=out)
    tariff = Tariff(
        periods=(PricePeriod(sheets={"": PriceSheet(rates=rates)}),), discount=Fraction(discount)
    )
    price = worth(price_attempt(prediction(tokens, tariff=tariff), route(), b""))
    costs = [price.cost_with(length) for length in sorted(lengths)]

    assert costs == sorted(costs)
    assert all(type(nanos) is int for nanos in costs)
