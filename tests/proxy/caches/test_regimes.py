"""Section numbers are those of the provider reference the rules were taken from."""

import pytest

from proxy.caches.anthropic_breakpoint import AnthropicBreakpoints
from proxy.caches.block_chain import BlockChain
from proxy.caches.longest_prefix import LongestPrefix
from proxy.caches.openai_breakpoint import OpenAIBreakpoints
from proxy.caches.openai_interval import OpenAIIntervals
from proxy.caches.port import Ttl
from proxy.caches.prefix_unit import PrefixUnits
from proxy.caches.regimes import REGIMES, build_cache
from proxy.caches.slots import ServerSlots
from tests.proxy.caches.prompts import block, call, prompt, users


def test_each_regime_has_its_cache() -> None:
    built = {regime: type(build_cache(regime)) for regime in REGIMES}

    assert built == {
        "openai-breakpoint": OpenAIBreakpoints,
        "openai-interval": OpenAIIntervals,
        "anthropic-breakpoint": AnthropicBreakpoints,
        "implicit": LongestPrefix,
        "block-chain": BlockChain,
        "prefix-unit": PrefixUnits,
    }


def test_7_3_llama_cpp_keeps_slots() -> None:
    assert isinstance(build_cache("implicit", provider="llamacpp"), ServerSlots)


def test_an_unknown_regime_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(ValueError, match=r"no cache regime 'lru'; known are anthropic-breakpoint,"):
        build_cache("lru")


def test_0_a_new_cache_holds_nothing() -> None:
    for regime in REGIMES:
        assert build_cache(regime).serve(users(("a", 10_000)), 0).read == 0


@pytest.mark.parametrize(
    ("regime", "provider", "mark", "read"),
    [
        ("openai-breakpoint", "openai", "30m", 8_000),
        ("openai-breakpoint", "azure", "30m", 8_000),
        ("openai-interval", "openai", None, 6_144),
        ("openai-interval", "azure", None, 7_936),
        ("anthropic-breakpoint", "anthropic", "5m", 8_000),
        ("anthropic-breakpoint", "bedrock", "5m", 8_000),
        ("implicit", "google", None, 8_000),
        ("implicit", "groq", None, 8_000),
        ("implicit", "fireworks", None, 8_000),
        ("implicit", "sglang", None, 8_000),
        ("implicit", "llamacpp", None, 8_000),
        ("block-chain", "vllm", None, 8_000),
        ("block-chain", "mistral", None, 8_000),
        ("block-chain", "xai", None, 7_936),
        ("prefix-unit", "deepseek", None, 8_000),
    ],
)
def test_0_each_provider_reads_the_next_turn_in_its_own_steps(
    regime: str, provider: str, mark: Ttl | None, read: int
) -> None:
    cache = build_cache(regime, provider=provider)
    call(cache, prompt(block("a", 8_000, mark=mark), key="one"))
    grown = prompt(block("a", 8_000), block("b", 50, message=1, mark=mark), key="one")

    assert cache.serve(grown, 5).read == read


@pytest.mark.parametrize(
    ("regime", "provider"),
    [*((regime, "") for regime in sorted(REGIMES)), ("implicit", "llamacpp")],
)
def test_the_least_tokens_of_a_model_replace_those_of_the_regime(
    regime: str, provider: str
) -> None:
    mark: Ttl = "5m" if regime == "anthropic-breakpoint" else "30m"
    for least, hits in ((4_095, True), (9_000, False)):
        cache = build_cache(regime, provider=provider, min_tokens=least)
        sent_prompt = prompt(block("a", 8_192, mark=mark))
        call(cache, sent_prompt)

        assert (cache.serve(sent_prompt, 5).read > 0) == hits
