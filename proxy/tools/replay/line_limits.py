"""The limits of a cache regime: its minimum prefix, its steps, and the cost of writes."""

from collections.abc import Mapping
from math import inf
from typing import Final, Literal

import msgspec

from proxy.caches import (
    anthropic_breakpoint,
    block_chain,
    longest_prefix,
    openai_breakpoint,
    openai_interval,
    prefix_unit,
)
from proxy.tools.simulator.models import SimulatedModel

#: The cheapest paid write, as a field of ``Usage``.
Write = Literal["", "write_5m", "write_30m"]


class CacheBounds(msgspec.Struct, frozen=True, kw_only=True):
    """One cache's limits.

    Attributes:
        caches: True if it stores anything.
        least: Shorter prefixes are never read.
        step: Step in tokens: reads are a multiple of it.
        write: The cheapest paid write; "" where writes are free.
        lifetime: Seconds after which an unused prefix is gone, at the cheapest lifetime.
        answers: True if what was generated is stored.
        marks: True if only what ends at a mark is stored.
        spoken: True if what is stored may end in what the assistant said.
        units: True if only whole calls, and what two calls have in common, are stored.
        build: Seconds until such a unit can be read.
    """

    caches: bool = True
    least: int = 0
    step: int = 1
    write: Write = ""
    lifetime: float = inf
    answers: bool = False
    marks: bool = False
    spoken: bool = True
    units: bool = False
    build: float = 0.0


def cache_bounds(model: SimulatedModel) -> CacheBounds:
    """The limits of the model's cache."""
    found = _bounds(model.regime, model.provider)
    if model.min_cache_tokens is None:
        return found
    return msgspec.structs.replace(found, least=model.min_cache_tokens)


def _bounds(regime: str, provider: str) -> CacheBounds:
    if regime == "implicit":
        return _IMPLICIT.get(provider, _implicit(longest_prefix.GEMINI))
    if regime == "block-chain":
        return _CHAINS.get(provider, _chain(block_chain.VLLM))
    if regime == "openai-interval" and provider == "azure":
        return _interval(openai_interval.AZURE)
    return _OTHERS.get(regime, CacheBounds(caches=False))


def _implicit(rules: longest_prefix.LongestPrefixRules) -> CacheBounds:
    return CacheBounds(
        least=rules.least, step=rules.page, lifetime=rules.lifetime, answers=rules.generated
    )


def _chain(rules: block_chain.BlockChainRules) -> CacheBounds:
    return CacheBounds(
        least=rules.least, step=rules.block, lifetime=rules.lifetime, answers=rules.generated
    )


def _interval(rules: openai_interval.OpenAIIntervalRules) -> CacheBounds:
    return CacheBounds(least=rules.least, step=rules.interval, lifetime=rules.idle_most)


_IMPLICIT: Final[Mapping[str, CacheBounds]] = {
    "groq": _implicit(longest_prefix.GROQ),
    "fireworks": _implicit(longest_prefix.FIREWORKS),
    "sglang": _implicit(longest_prefix.SGLANG),
    "llamacpp": CacheBounds(answers=True),
}
_CHAINS: Final[Mapping[str, CacheBounds]] = {
    "mistral": _chain(block_chain.MISTRAL),
    "xai": _chain(block_chain.XAI),
}
_OTHERS: Final[Mapping[str, CacheBounds]] = {
    "openai-interval": _interval(openai_interval.IN_MEMORY),
    "openai-breakpoint": CacheBounds(
        least=openai_breakpoint.OPENAI.least,
        write="write_30m",
        lifetime=openai_breakpoint.OPENAI.lifetimes["30m"],
        marks=True,
        spoken=False,
    ),
    "anthropic-breakpoint": CacheBounds(
        least=anthropic_breakpoint.ANTHROPIC.least,
        write="write_5m",
        lifetime=anthropic_breakpoint.ANTHROPIC.lifetimes["5m"],
        marks=True,
    ),
    "prefix-unit": CacheBounds(
        step=prefix_unit.DEEPSEEK.step,
        lifetime=prefix_unit.DEEPSEEK.lifetime,
        answers=True,
        units=prefix_unit.DEEPSEEK.every is None,
        build=prefix_unit.DEEPSEEK.build,
    ),
}
