import orjson
import pytest

from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from proxy.calls.eligibility.route_target import route_target
from proxy.catalog.entries import Route, Upstream
from proxy.records.call import Call
from proxy.records.compaction_settings import FeatureSettings
from proxy.services.compaction.policies import (
    CompactionRequest,
    compaction_policy,
    native_compaction_result,
    parse_compaction_request,
    relative_prices,
)
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from tests.fakes.call_dependencies import call as made
from tests.fakes.call_dependencies import route

NOW = 1_790_000_000.0
RATES = TokenRates(input=5_000, cache_read=500, write_5m=6_250, write_1h=10_000, output=25_000)
CLAUDE = route(
    "anthropic",
    kind="anthropic",
    regime="anthropic-breakpoint",
    tariff=Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=RATES)}),)),
    window=200_000,
)


def test_prices_are_the_catalogs_own():
    assert relative_prices(route_target(CLAUDE, "m", NOW)) == RelativePrices(0.1, 1.25, 5.0, 1_024)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        (TokenRates(input=10, cache_read=5, output=20), RelativePrices(0.5, 1.0, 2.0)),
        (
            TokenRates(input=10, cache_read=1, write_5m=20, write_30m=15),
            RelativePrices(0.1, 1.5, 4.0),
        ),
        (TokenRates(input=10, output=20), RelativePrices(1.0, 1.0, 2.0)),
        (TokenRates(input=0), RelativePrices(0.1, 1.25, 4.0)),
    ],
)
def test_a_cache_of_unknown_ways_is_there_if_reading_it_has_a_price(rates, expected):
    tariff = Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=rates)}),))

    assert relative_prices(route_target(route(regime="", tariff=tariff), "m", NOW)) == expected


def test_where_nothing_is_known_the_usual_is_taken():
    assert relative_prices(route_target(route(regime="", tariff=None), "m", NOW)) == RelativePrices(
        0.1, 1.25, 4.0
    )


def test_without_a_price_the_regimes_rules_hold():
    there = route_target(route(regime="openai-interval", tariff=None), "m", NOW)

    assert relative_prices(there) == RelativePrices(0.1, 1.0, 4.0, 1_024, 2_048)


@pytest.mark.parametrize(("regime", "block"), [("prefix-unit", 0), ("openai-breakpoint", 1)])
def test_where_whole_prompts_alone_are_kept_no_part_of_one_is_surely_read(regime, block):
    assert relative_prices(route_target(route(regime=regime, tariff=None), "m", NOW)).block == block


def test_a_features_setting_overrides_the_default():
    there = route_target(CLAUDE, "m", NOW)
    usual = compaction_policy(
        CompactionRequest(mode=CompactionMode.FACTS), FeatureSettings(), there, None
    )
    own = compaction_policy(
        CompactionRequest(mode=CompactionMode.TRIM, force=True),
        FeatureSettings(keep_turns=5, target=9_000),
        there,
        200_000,
    )

    assert usual == CompactionPolicy(mode=CompactionMode.FACTS, prices=relative_prices(there))
    assert (own.mode, own.keep_turns, own.target, own.window, own.force) == (
        CompactionMode.TRIM,
        5,
        9_000,
        200_000,
        True,
    )


_TOOL = {"role": "tool", "tool_call_id": "a", "content": "…"}


def native_route(kind: str, provider: str) -> Route:
    upstream = Upstream(
        name="there",
        kind=kind,  # type: ignore[arg-type]
        base_url="http://there",
        provider=provider,
    )
    return Route(name="there/m", upstream=upstream)


def call_with(endpoint: str, body: object) -> Call:
    return made(orjson.dumps(body), endpoint)


def test_openai_is_asked_to_compact_responses():
    came = call_with("responses", {"input": "hello"})

    result = native_compaction_result(
        came, native_route("openai", "openai"), FeatureSettings(target=50_000), is_dry=False
    )

    assert result.sent is not None
    edits = orjson.loads(result.sent.body)["context_management"]
    assert edits == [{"type": "compaction", "compact_threshold": 50_000}]
    assert not result.is_compacted
    assert result.header == "unmodified; reason=asked"


@pytest.mark.parametrize(("keep_turns", "kept"), [(5, 5), (None, 3)])
def test_anthropic_is_asked_to_clear_old_results(keep_turns: int | None, kept: int):
    came = call_with("chat/completions", {"messages": [{"role": "user", "content": "a"}, _TOOL]})

    result = native_compaction_result(
        came,
        native_route("anthropic", "anthropic"),
        FeatureSettings(keep_turns=keep_turns),
        is_dry=False,
    )

    assert result.sent is not None
    edit = orjson.loads(result.sent.body)["context_management"]["edits"][0]
    assert edit["trigger"]["value"] == 100_000
    assert edit["keep"]["value"] == kept


@pytest.mark.parametrize("endpoint", ["responses", "chat/completions"])
def test_providers_without_compaction_get_the_call_unmodified_with_a_note(endpoint: str):
    result = native_compaction_result(
        call_with(endpoint, {}), native_route("openai", "deepseek"), FeatureSettings(), is_dry=False
    )

    assert result.sent is None
    assert result.why == "native"
    assert "no compaction of its own" in result.notes[0]


def test_a_dry_run_asks_no_provider():
    result = native_compaction_result(
        call_with("responses", {"input": "a"}),
        native_route("openai", "openai"),
        FeatureSettings(),
        is_dry=True,
    )

    assert result.sent is None
    assert result.why == "dry_run"


def test_a_wrong_directive_is_quoted_with_40_characters():
    request = parse_compaction_request("x" * 50, FeatureSettings(), CompactionMode.FACTS)

    assert f"not '{'x' * 40}':" in request.notes[0]
