from fractions import Fraction
from typing import Any

import pytest

from proxy.calls.eligibility.route_target import route_target
from proxy.catalog.entries import Route, Upstream
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from tests.fakes.call_dependencies import RATES, TARIFF, route

NOW = 1_790_000_000.0


def to(kind: str = "openai", provider: str = "openai", **fields: Any) -> Route:
    upstream = Upstream(
        name="up",
        kind="anthropic" if kind == "anthropic" else "openai",
        base_url="http://up/v1",
        provider=provider,
    )
    return route("up", upstream=upstream, **fields)


def test_a_route_says_where_it_leads_and_what_its_cache_does():
    target = route_target(to(regime="openai-interval", min_cache_tokens=2_048), "gpt", NOW)

    assert (target.upstream, target.model) == ("up", "gpt")
    assert (target.regime.name, target.regime.provider) == ("openai-interval", "openai")
    assert (target.regime.least, target.regime.read) == (2_048, Fraction(1, 10))
    assert target.rates == RATES


def test_retention_of_the_route_decides_how_long_reads_are_counted_on():
    target = route_target(to(regime="openai-interval", prompt_cache_retention="24h"), "m", NOW)

    assert target.regime.lifetimes == {"": 1_800.0}


def test_an_upstreams_own_name_of_the_model_counts():
    assert route_target(to(model="theirs"), "ours", NOW).model == "theirs"


@pytest.mark.parametrize("tariff", [None, Tariff(periods=())])
def test_unknown_prices_are_none(tariff):
    target = route_target(to(tariff=tariff, regime="openai-breakpoint"), "m", NOW)

    assert target.rates is None
    assert target.regime.writes["30m"] == Fraction(5, 4)


def test_prices_are_those_of_the_day():
    dear = TokenRates(input=2_000_000_000)
    later = PricePeriod(since=NOW, sheets={"": PriceSheet(rates=dear)})
    tariff = Tariff(periods=(*TARIFF.periods, later))

    assert route_target(to(tariff=tariff), "m", NOW - 1).rates == RATES
    assert route_target(to(tariff=tariff), "m", NOW).rates == dear


def test_a_period_without_a_standard_sheet_has_no_price():
    tariff = Tariff(periods=(PricePeriod(sheets={"batch": PriceSheet(rates=RATES)}),))

    assert route_target(to(tariff=tariff), "m", NOW).rates is None


@pytest.mark.parametrize(
    ("route", "late"),
    [
        (to(), True),
        (to(provider="azure"), True),
        (to(provider="deepseek"), True),
        (to(provider="vllm"), False),
        (to(provider="vllm", traits=frozenset({"mid_system"})), True),
        (to("anthropic", provider="anthropic"), True),
        (to(provider=""), False),
    ],
)
def test_system_messages_come_late_only_where_they_are_taken(route, late):
    assert route_target(route, "m", NOW).late == late


def test_system_messages_of_anthropics_own_api_stay_where_they_are():
    upstream = Upstream(name="a", kind="anthropic", base_url="https://a/v1")
    target = route_target(Route(name="a/c", upstream=upstream), "c", 0.0, "messages")

    assert not target.late
    able = Route(name="a/c", upstream=upstream, traits=frozenset({"mid_system"}))
    assert route_target(able, "c", 0.0, "messages").late
