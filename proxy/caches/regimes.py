"""Builds the model of a prompt cache by the name of its rules in the catalog."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from proxy.caches import (
    anthropic_breakpoint,
    block_chain,
    longest_prefix,
    openai_breakpoint,
    openai_interval,
    prefix_unit,
    slots,
)
from proxy.caches.longest_prefix import LongestPrefixRules
from proxy.caches.port import Cache
from proxy.caches.slots import SlotRules


def _implicit_rules(provider: str) -> LongestPrefixRules | SlotRules:
    is_slotted = provider == slots.PROVIDER
    return slots.LLAMA_CPP if is_slotted else longest_prefix.provider_rules(provider)


def _implicit_cache(rules: LongestPrefixRules | SlotRules, _seed: int) -> Cache:
    if isinstance(rules, SlotRules):
        return slots.ServerSlots(rules)
    return longest_prefix.LongestPrefix(rules)


#: The rules of a provider by each regime, and the cache that follows them with a seed.
_BUILDERS: Mapping[str, tuple[Callable[[str], Any], Callable[[Any, int], Cache]]] = {
    "openai-breakpoint": (
        openai_breakpoint.provider_rules,
        lambda rules, _: openai_breakpoint.OpenAIBreakpoints(rules),
    ),
    "openai-interval": (
        openai_interval.provider_rules,
        lambda rules, seed: openai_interval.OpenAIIntervals(rules, seed=seed),
    ),
    "anthropic-breakpoint": (
        anthropic_breakpoint.provider_rules,
        lambda rules, _: anthropic_breakpoint.AnthropicBreakpoints(rules),
    ),
    "implicit": (_implicit_rules, _implicit_cache),
    "block-chain": (
        block_chain.provider_rules,
        lambda rules, _: block_chain.BlockChain(rules),
    ),
    "prefix-unit": (
        lambda _: prefix_unit.DEEPSEEK,
        lambda rules, _: prefix_unit.PrefixUnits(rules),
    ),
}

#: Every name that ``cache`` knows.
REGIMES = frozenset(_BUILDERS)


def build_cache(
    regime: str, *, provider: str = "", min_tokens: int | None = None, seed: int = 0
) -> Cache:
    """A new, empty cache that behaves as the regime's do.

    Args:
        regime: One of ``REGIMES``.
        provider: Whose cache it is, where providers of one regime differ: azure, bedrock, groq,
            fireworks, sglang, llamacpp, mistral, xai. Any other gets the regime's own rules.
        min_tokens: The model's least tokens; None for the regime's.
        seed: Decides whatever is left to chance.

    Raises:
        ValueError: No such regime.
    """
    if regime not in _BUILDERS:
        raise ValueError(f"no cache regime {regime!r}; known are {', '.join(sorted(REGIMES))}")
    provider_rules, build = _BUILDERS[regime]
    rules = provider_rules(provider)
    return build(rules if min_tokens is None else replace(rules, least=min_tokens), seed)
