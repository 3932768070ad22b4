"""Tests of what planning counts on is what the cache models do, at the prices of the catalog."""

from fractions import Fraction

import pytest

from proxy.caches.outlook import planning_regime, regime_at_retention
from proxy.caches.regimes import REGIMES, build_cache
from slo.price import TokenRates
from tests.proxy.caches.prompts import block, call, prompt, users

RATES = TokenRates(input=2_000, cache_read=100, write_5m=2_500, write_1h=4_000, write_30m=2_500)


def test_anthropic_sells_two_lifetimes_and_four_marks():
    regime = planning_regime("anthropic-breakpoint", least=512, rates=RATES)

    assert (regime.least, regime.marks, regime.lookback) == (512, 4, 20)
    assert regime.writes == {"5m": Fraction(5, 4), "1h": Fraction(2)}
    assert regime.read == Fraction(1, 20)
    assert regime.lifetimes == {"5m": 300.0, "1h": 3_600.0}
    assert regime.takes_marks


def test_a_lifetime_without_a_price_is_not_offered():
    regime = planning_regime("openai-breakpoint", rates=RATES)

    assert regime.writes == {"30m": Fraction(5, 4)}
    assert "12h" in planning_regime("openai-breakpoint").writes


def test_azure_offers_one_lifetime():
    assert set(planning_regime("openai-breakpoint", provider="azure").writes) == {"30m"}
    assert planning_regime("openai-interval", provider="azure").block == 128


@pytest.mark.parametrize(
    ("name", "provider", "step", "least"),
    [
        ("openai-interval", "openai", 2_048, 1_024),
        ("block-chain", "vllm", 16, 0),
        ("block-chain", "mistral", 64, 64),
        ("block-chain", "xai", 128, 0),
        ("prefix-unit", "deepseek", 64, 0),
        ("implicit", "google", 1, 4_096),
        ("implicit", "groq", 1, 1_024),
    ],
)
def test_writes_are_free_in_regimes_without_marks(name, provider, step, least):
    regime = planning_regime(name, provider=provider)

    assert (regime.block, regime.least) == (step, least)
    assert not regime.writes
    assert not regime.takes_marks
    assert 0 < regime.lifetimes[""] <= 7_200


def test_a_published_lifetime_is_planned_with_however_long_it_is():
    assert planning_regime("implicit", provider="groq").lifetimes == {"": 7_200.0}


@pytest.mark.parametrize(
    ("retention", "lives", "gone_after"),
    [("", 300.0, 86_400.0), ("in_memory", 300.0, 3_600.0), ("24h", 1_800.0, 86_400.0)],
)
def test_openai_entry_is_counted_on_for_its_typical_life_and_gone_after_its_longest(
    retention, lives, gone_after
):
    regime = planning_regime("openai-interval", retention=retention)

    assert (regime.lifetimes, regime.gone_after_s) == ({"": lives}, gone_after)
    assert regime_at_retention(planning_regime("openai-interval"), retention) == regime


def test_retention_means_nothing_to_caches_that_have_none():
    for name in REGIMES - {"openai-interval"}:
        regime = planning_regime(name, retention="24h")
        assert regime == planning_regime(name)
        assert regime.gone_after_s == 0.0


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("block-chain", "vllm"),
        ("block-chain", "xai"),
        ("implicit", "sglang"),
        ("implicit", "llamacpp"),
    ],
)
def test_a_cache_bounded_by_room_alone_is_planned_with_for_an_hour(name, provider):
    assert planning_regime(name, provider=provider).lifetimes == {"": 3_600.0}


@pytest.mark.parametrize(
    ("name", "provider", "read"),
    [
        ("block-chain", "vllm", 4_080),
        ("implicit", "sglang", 4_095),
        ("openai-interval", "openai", 4_096),
        ("openai-breakpoint", "openai", 4_096),
        ("prefix-unit", "deepseek", 4_096),
    ],
)
def test_a_repeated_prompt_is_read_but_for_the_token_that_an_engine_computes(name, provider, read):
    cache, sent_prompt = build_cache(name, provider=provider), users(("a", 4_096))
    if name == "openai-breakpoint":
        sent_prompt = prompt(block("a", 4_096, mark="30m"))
    call(cache, sent_prompt)

    assert planning_regime(name, provider=provider).readable_tokens(4_096, 4_096) == read
    assert cache.serve(sent_prompt, 10.0).read == read


def test_bedrock_has_marks_of_its_own_rules():
    assert planning_regime("anthropic-breakpoint", provider="bedrock").marks == 4


def test_unknown_prices_are_planned_with_as_the_usual_ones():
    regime = planning_regime("anthropic-breakpoint")

    assert regime.read == Fraction(1, 10)
    assert regime.writes == {"5m": Fraction(5, 4), "1h": Fraction(2)}


def test_an_unknown_regime_caches_nothing():
    regime = planning_regime("", provider="somebody")

    assert regime.read == 1
    assert not regime.lifetimes


def test_every_regime_of_the_catalog_has_an_outlook():
    assert all(planning_regime(name).name == name for name in REGIMES)
