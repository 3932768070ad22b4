"""The shipped catalog: rates, cache rules and dates, pinned by hand."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from proxy.catalog.catalog import Catalog
from slo.price import CallCost
from slo.usage import Usage
from tests.proxy.catalog.shipped_models import SHIPPED, cost_of, dollars, period, route


@pytest.fixture(name="catalog", scope="module")
def _catalog() -> Catalog:
    return SHIPPED


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("gpt-6.1-sol", "input 2 cache_read 0.1 write_30m 2.5 write_12h 5 output 10"),
        ("gpt-6.2-sol", "input 2 cache_read 0.1 write_30m 2.5 write_12h 5 output 10"),
        ("gpt-6.1-terra", "input 1 cache_read 0.05 write_30m 1.25 write_12h 2.5 output 5"),
        ("gpt-5.6-luna", "input 0.2 cache_read 0.02 write_30m 0.25 write_12h 0.5 output 1.2"),
        ("gpt-5.5", "input 5 cache_read 0.5 output 30"),
        ("gpt-5.5-pro", "input 30 output 180"),
        ("gpt-4o-mini", "input 0.15 cache_read 0.075 output 0.6"),
        ("claude-opus-5-5", "input 4 cache_read 0.2 write_5m 5 write_1h 8 output 20"),
        ("claude-haiku-5-5", "input 0.1 cache_read 0.01 write_5m 0.125 write_1h 0.2 output 0.5"),
        ("claude-fable-5-2", "input 8 cache_read 0.2 write_5m 10 write_1h 16 output 40"),
        ("gemini-2.5-pro", "input 1.25 cache_read 0.125 output 10"),
        ("deepseek-v4-pro", "input 1.32 cache_read 0.044 output 3.96"),
        ("mistral-large-4", "input 0.7 cache_read 0.07 output 2.1"),
        ("grok-4.7", "input 2 cache_read 0.5 output 6"),
        ("openai/gpt-oss-20b", "input 0.075 cache_read 0.0375 output 0.3"),
    ],
)
def test_published_rates(catalog: Catalog, name: str, rates: str) -> None:
    words = rates.split()
    published = {words[i]: Decimal(words[i + 1]) for i in range(0, len(words), 2)}
    assert dollars(period(route(catalog, name)).sheets[""].rates) == published


@pytest.mark.parametrize(
    ("name", "regime", "block"),
    [
        ("gpt-5.6-sol", "openai-breakpoint", None),
        ("gpt-5.5", "openai-interval", None),
        ("claude-opus-5-5", "anthropic-breakpoint", None),
        ("gemini-4-argon", "implicit", None),
        ("deepseek-flash", "prefix-unit", None),
        ("mistral-large-4", "block-chain", 64),
        ("grok-4.7", "block-chain", 128),
        ("openai/gpt-oss-120b", "implicit", None),
    ],
)
def test_cache_rules(catalog: Catalog, name: str, regime: str, block: int | None) -> None:
    assert (route(catalog, name).regime, route(catalog, name).block) == (regime, block)


@pytest.mark.parametrize(
    ("names", "retention"),
    [
        ("gpt-5.5 gpt-5.5-pro gpt-5.4 gpt-5.2 gpt-5.1 gpt-5 gpt-4.1", "24h"),
        ("gpt-5.4-mini gpt-5.4-nano gpt-5-mini gpt-5-nano gpt-4.1-mini gpt-4.1-nano", "in_memory"),
        ("gpt-4o gpt-4o-mini o3 o4-mini", "in_memory"),
        ("gpt-5.3-codex gpt-5.6-sol gpt-6.1-sol claude-opus-5-5 deepseek-flash", ""),
    ],
)
def test_models_that_openai_names_keep_prompts_for_a_day(
    catalog: Catalog, names: str, retention: str
) -> None:
    retentions = {route(catalog, name).prompt_cache_retention for name in names.split()}
    assert retentions == {retention}


@pytest.mark.parametrize(
    ("names", "traits"),
    [
        (
            "opus-4-5 sonnet-4-5 haiku-4-5",
            "sampling forced_tools budget_thinking prefill structured",
        ),
        (
            "opus-4-6 sonnet-4-6",
            "sampling forced_tools adaptive_thinking budget_thinking structured",
        ),
        ("opus-4-7 sonnet-5", "forced_tools adaptive_thinking structured"),
        ("haiku-5-5", "forced_tools adaptive_thinking bound_thinking structured"),
        ("opus-4-8 opus-5", "forced_tools adaptive_thinking mid_system structured"),
        (
            "opus-5-5 sonnet-5-5 fable-5-1 fable-5-2 mythos-5-1 mythos-5-2",
            "adaptive_thinking bound_thinking always_thinking mid_system structured",
        ),
        ("fable-5", "forced_tools adaptive_thinking always_thinking mid_system structured"),
    ],
)
def test_anthropic_models_have_their_traits(catalog: Catalog, names: str, traits: str) -> None:
    for name in names.split():
        assert route(catalog, f"claude-{name}").traits == set(traits.split())


def test_every_route_of_a_chat_model_says_what_its_requests_may_hold(catalog: Catalog) -> None:
    for model in catalog.models.values():
        (only,) = model.routes
        assert bool(only.traits) != model.id.startswith("text-embedding")
        if only.traits and only.upstream.kind == "openai":
            assert only.traits & {"max_tokens", "max_completion_tokens"}


def test_all_models_of_mistral_take_a_prediction(catalog: Catalog) -> None:
    names = {
        name for name, model in catalog.models.items() if model.routes[0].upstream.name == "mistral"
    }
    assert "mistral-large-latest" in names
    assert all("prediction" in route(catalog, name).traits for name in names)


def test_reasoning_models_of_openai_refuse_max_tokens(catalog: Catalog) -> None:
    refusing = {model for model in catalog.models if model.startswith(("gpt-5", "gpt-6", "o"))}
    for name in refusing - {"openai/gpt-oss-120b", "openai/gpt-oss-20b"}:
        assert "max_tokens" not in route(catalog, name).traits
        assert "sampling" not in route(catalog, name).traits


def test_keys_are_read_from_where_people_keep_them(catalog: Catalog) -> None:
    assert {name: upstream.key_env for name, upstream in catalog.upstreams.items()} == {
        "openai": "OPENAI_API_KEY",
        "anthropic": "ANTHROPIC_API_KEY",
        "google": "GEMINI_API_KEY",
        "deepseek": "DEEPSEEK_API_KEY",
        "mistral": "MISTRAL_API_KEY",
        "xai": "XAI_API_KEY",
        "groq": "GROQ_API_KEY",
    }
    assert catalog.default.upstream.name == "openai"


def test_the_shipped_catalog_has_no_warnings(catalog: Catalog) -> None:
    assert catalog.warnings == ()


@pytest.mark.parametrize(
    ("name", "standard", "batch"),
    [("3-small", 20_000, 10_000), ("3-large", 130_000, 65_000), ("ada-002", 100_000, None)],
)
def test_embeddings_cost_their_input(
    catalog: Catalog, name: str, standard: int, batch: int | None
) -> None:
    model = route(catalog, f"text-embedding-{name}")

    assert cost_of(model, Usage(input=1_000)) == CallCost(standard, standard)
    cost = cost_of(model, Usage(input=1_000), service_tier="batch")
    assert cost == (None if batch is None else CallCost(batch, batch))


def test_every_model_has_a_price(catalog: Catalog) -> None:
    assert [model.id for model in catalog.models.values() if model.routes[0].tariff is None] == []


def test_the_first_gpt_4o_costs_what_it_did(catalog: Catalog) -> None:
    model = route(catalog, "gpt-4o-2024-05-13")

    assert cost_of(model, Usage(input=1_000, output=100)) == CallCost(6_500_000, 6_500_000)


def test_haiku_5_5_is_five_times_dearer_above_100k_output_included(catalog: Catalog) -> None:
    haiku = route(catalog, "claude-haiku-5-5")
    usage_ = Usage(input=50_000, cache_read=30_000, write_5m=10_000, write_1h=10_000, output=1_000)
    over = Usage(input=50_001, cache_read=30_000, write_5m=10_000, write_1h=10_000, output=1_000)
    assert cost_of(haiku, usage_) == CallCost(9_050_000, 9_050_000)
    assert cost_of(haiku, over) == CallCost(45_250_500, 45_250_500)
    assert cost_of(haiku, over, service_tier="batch", region="us") == CallCost(
        24_887_775, 24_887_775
    )


def test_gpt_5_5_doubles_input_and_cache_above_272k_and_output_by_half(catalog: Catalog) -> None:
    model = route(catalog, "gpt-5.5")
    usage_ = Usage(input=72_000, cache_read=200_000, output=1_000)
    over = Usage(input=72_001, cache_read=200_000, output=1_000)
    assert cost_of(model, usage_) == CallCost(490_000_000, 490_000_000)
    assert cost_of(model, over) == CallCost(965_010_000, 965_010_000)
    assert cost_of(model, usage_, service_tier="priority") == CallCost(1_225_000_000, 1_225_000_000)
    assert cost_of(model, over, service_tier="priority") is None


def test_writes_of_both_lifetimes_are_priced_apart(catalog: Catalog) -> None:
    usage = Usage(write_5m=1_000, write_1h=2_000)
    assert cost_of(route(catalog, "claude-opus-5-5"), usage) == CallCost(21_000_000, 21_000_000)


def test_batch_region_and_fast_mode_multiply(catalog: Catalog) -> None:
    opus = route(catalog, "claude-opus-5")
    usage = Usage(input=1_000, write_1h=1_000, output=1_000)  # $5, $10 and $25 per million
    assert cost_of(opus, usage) == CallCost(40_000_000, 40_000_000)
    assert cost_of(opus, usage, service_tier="batch", region="us") == CallCost(
        22_000_000, 22_000_000
    )
    assert cost_of(opus, usage, region="us", fast=True) == CallCost(88_000_000, 88_000_000)
    assert cost_of(route(catalog, "claude-opus-4-7"), usage, fast=True) is None


def test_an_openai_tier_and_a_region_multiply(catalog: Catalog) -> None:
    # At $1, $0.10, $1.25, $2.50 and $5 per million in flex: 6.75 million nano-dollars.
    usage = Usage(input=1_000, cache_read=5_000, write_30m=1_000, write_12h=600, output=500)
    cost = cost_of(route(catalog, "gpt-6-sol"), usage, service_tier="flex", region="eu")
    assert cost == CallCost(7_425_000, 7_425_000)


@pytest.mark.parametrize(
    ("name", "change", "before", "after"),
    [
        ("claude-sonnet-5-5", (2026, 10, 7), "2 0.2 10", "2 0.1 10"),
        ("gemini-4-argon", (2026, 12, 1), "2 0.1 10", "4 0.2 20"),
        ("gemini-3.8-flash", (2027, 1, 1), "0.75 0.075 3.75", "1.5 0.15 7.5"),
        ("mistral-large-4", (2026, 10, 20), "0.68 0.07 2.09", "1.36 0.14 4.18"),
        ("mistral-large-4", (2026, 10, 29), "1.36 0.14 4.18", "0.7 0.07 2.1"),
    ],
)
def test_a_dated_change_begins_with_its_day(
    catalog: Catalog, name: str, change: tuple[int, int, int], before: str, after: str
) -> None:
    sold = route(catalog, name)
    moment = datetime(*change, tzinfo=UTC).timestamp()
    for second, price in ((moment - 1, before), (moment, after)):
        rates = dollars(period(sold, second).sheets[""].rates)
        assert [rates[key] for key in ("input", "cache_read", "output")] == [
            Decimal(word) for word in price.split()
        ]


def test_ultrafast_gpt_6_2_doubles_after_february_2027(catalog: Catalog) -> None:
    sol, usage = route(catalog, "gpt-6.2-sol"), Usage(input=1_000, output=100)  # $0.003
    costs = [
        cost_of(sol, usage, *moment, service_tier="ultrafast")
        for moment in ((2026, 11, 28), (2027, 2, 28, 23), (2027, 3, 1))
    ]
    assert costs == [CallCost(nanos, nanos) for nanos in (9_000_000, 9_000_000, 18_000_000)]


@pytest.mark.parametrize(
    ("moment", "nanos"),
    [
        ((2026, 11, 20, 0, 59, 59), 150_000_000),
        ((2026, 11, 20, 1, 0, 0), 300_000_000),
        ((2026, 11, 20, 4, 0, 0), 150_000_000),
        ((2026, 11, 20, 6, 0, 0), 300_000_000),
        ((2026, 11, 20, 10, 0, 0), 150_000_000),
        ((2026, 11, 21, 7, 0, 0), 150_000_000),  # a Saturday
        ((2026, 10, 1, 7, 0, 0), 150_000_000),  # a Thursday, China's National Day
    ],
)
def test_deepseek_is_half_price_outside_its_peak_hours(
    catalog: Catalog, moment: tuple[int, ...], nanos: int
) -> None:
    sold = route(catalog, "deepseek-flash")
    assert cost_of(sold, Usage(input=1_000_000), *moment) == CallCost(nanos, nanos)


def test_xai_doubles_from_200k_on(catalog: Catalog) -> None:
    grok = route(catalog, "grok-4.7")
    assert cost_of(grok, Usage(input=199_999)) == CallCost(399_998_000, 399_998_000)
    assert cost_of(grok, Usage(input=200_000)) == CallCost(800_000_000, 800_000_000)
