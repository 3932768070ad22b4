"""Builds the model of a prompt cache by the name of its rules in the catalog."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from proxy.caches import (
    anthropic_breakpoint,
    block_chain,
    longest_prefix,
    openai_breakpoint,
    openai_interval,
    prefix_unit,
    slots,
)
from proxy.caches.port import Cache

_Build = Callable[[str, int | None, int], Cache]


def _openai_breakpoint(provider: str, least: int | None, seed: int) -> Cache:
    rules = openai_breakpoint.provider_rules(provider)
    return openai_breakpoint.OpenAIBreakpoints(
        replace(rules, least=_or_default(least, rules.least))
    )


def _openai_interval(provider: str, least: int | None, seed: int) -> Cache:
    rules = openai_interval.provider_rules(provider)
    rules = replace(rules, least=_or_default(least, rules.least))
    return openai_interval.OpenAIIntervals(rules, seed=seed)


def _anthropic_breakpoint(provider: str, least: int | None, seed: int) -> Cache:
    rules = anthropic_breakpoint.provider_rules(provider)
    return anthropic_breakpoint.AnthropicBreakpoints(
        replace(rules, least=_or_default(least, rules.least))
    )


def _implicit(provider: str, least: int | None, seed: int) -> Cache:
    if provider == slots.PROVIDER:
        return slots.ServerSlots(replace(slots.LLAMA_CPP, least=_or_default(least, 0)))
    rules = longest_prefix.provider_rules(provider)
    rules = replace(rules, least=_or_default(least, rules.least))
    return longest_prefix.LongestPrefix(rules, seed=seed)


def _block_chain(provider: str, least: int | None, seed: int) -> Cache:
    rules = block_chain.provider_rules(provider)
    return block_chain.BlockChain(replace(rules, least=_or_default(least, rules.least)))


def _prefix_unit(provider: str, least: int | None, seed: int) -> Cache:
    return prefix_unit.PrefixUnits(replace(prefix_unit.DEEPSEEK, least=_or_default(least, 0)))


_BUILDERS: Mapping[str, _Build] = {
    "openai-breakpoint": _openai_breakpoint,
    "openai-interval": _openai_interval,
    "anthropic-breakpoint": _anthropic_breakpoint,
    "implicit": _implicit,
    "block-chain": _block_chain,
    "prefix-unit": _prefix_unit,
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
    build = _BUILDERS.get(regime)
    if build is None:
        raise ValueError(f"no cache regime {regime!r}; known are {', '.join(sorted(REGIMES))}")
    return build(provider, min_tokens, seed)


def _or_default(chosen: int | None, default: int) -> int:
    return default if chosen is None else chosen
