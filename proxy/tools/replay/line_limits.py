"""The limits of a cache regime: its minimum prefix, its steps, and the cost of writes."""

from collections.abc import Callable, Mapping
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
    slots,
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
    bounds = _BOUNDS.get(regime)
    return bounds(provider) if bounds is not None else CacheBounds(caches=False)


def _implicit(provider: str) -> CacheBounds:
    if provider == slots.PROVIDER:
        return CacheBounds(least=slots.LLAMA_CPP.least, answers=True)
    rules = longest_prefix.provider_rules(provider)
    return CacheBounds(
        least=rules.least, step=rules.page, lifetime=rules.lifetime, answers=rules.generated
    )


def _block_chain(provider: str) -> CacheBounds:
    rules = block_chain.provider_rules(provider)
    return CacheBounds(
        least=rules.least, step=rules.block, lifetime=rules.lifetime, answers=rules.generated
    )


def _openai_interval(provider: str) -> CacheBounds:
    rules = openai_interval.provider_rules(provider)
    return CacheBounds(least=rules.least, step=rules.interval, lifetime=rules.idle_most)


def _openai_breakpoint(provider: str) -> CacheBounds:
    rules = openai_breakpoint.provider_rules(provider)
    return CacheBounds(
        least=rules.least,
        write="write_30m",
        lifetime=rules.lifetimes["30m"],
        marks=True,
        spoken=False,
    )


def _anthropic_breakpoint(provider: str) -> CacheBounds:
    rules = anthropic_breakpoint.provider_rules(provider)
    return CacheBounds(
        least=rules.least, write="write_5m", lifetime=rules.lifetimes["5m"], marks=True
    )


def _prefix_unit(_provider: str) -> CacheBounds:
    rules = prefix_unit.DEEPSEEK
    return CacheBounds(
        step=rules.step,
        lifetime=rules.lifetime,
        answers=True,
        units=rules.every is None,
        build=rules.build,
    )


_BOUNDS: Final[Mapping[str, Callable[[str], CacheBounds]]] = {
    "openai-interval": _openai_interval,
    "openai-breakpoint": _openai_breakpoint,
    "anthropic-breakpoint": _anthropic_breakpoint,
    "implicit": _implicit,
    "block-chain": _block_chain,
    "prefix-unit": _prefix_unit,
}
