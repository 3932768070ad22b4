"""Splits a prompt's tokens into read, written and fresh, and into a call's usage."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from proxy.caches.port import Served, Ttl
from slo.usage import Usage

L = TypeVar("L", bound=str)
#: Tokens at a prompt's end that engines compute in any case: nothing is generated without.
#: Source: vLLM 0.33.0 and SGLang 0.5.23 (2026-11): a hit is at most all tokens but one.
ALWAYS_FRESH: Final = 1
#: Fields of a usage that count tokens written begin so; the rest is the lifetime.
WRITE_PREFIX: Final = "write_"


def readable_tokens(
    cached: int, total: int, *, step: int = 1, least: int = 0, fresh: int = 0
) -> int:
    """Tokens read of a prefix that is held: whole steps, and nothing below the least.

    Args:
        step: Tokens that are read are a multiple of so many.
        least: Less counts as nothing.
        fresh: So many at the prompt's end are never read.
    """
    tokens = max(0, min(cached, total - fresh)) // step * step
    return tokens if tokens >= least else 0


def bill_prompt(
    total: int, hit: int, writes: Iterable[tuple[int, Ttl]], lifetimes: Mapping[Ttl, float]
) -> Served:
    """Bill a prompt of which ``hit`` tokens are read and prefixes are written beyond them.

    Args:
        writes: The length of each written prefix, in tokens, and its lifetime.
        lifetimes: Seconds of each lifetime the provider sells.
    """
    written = charged_writes(hit, writes, lifetimes)
    return Served(read=hit, fresh=total - hit - sum(written.values()), written=written)


def charged_writes(
    hit: int, writes: Iterable[tuple[int, L]], lifetimes: Mapping[L, float]
) -> dict[L, int]:
    """The tokens charged for writing, by lifetime; each once, at the longest that keeps it.

    With A the hit, B the longest prefix written for an hour and C the longest written at all, that
    is: write B - A for an hour, write C - B for five minutes.

    Source: Anthropic, prompt caching, mixing TTLs (2026-08); OpenAI, prompt caching, a token is
    charged once (2026-09).
    """
    longest: dict[L, int] = {}
    for tokens, ttl in writes:
        longest[ttl] = max(tokens, longest.get(ttl, 0))
    written: dict[L, int] = {}
    reached = hit
    for ttl in sorted(longest, key=lambda ttl: -lifetimes[ttl]):
        if longest[ttl] > reached:
            written[ttl] = longest[ttl] - reached
            reached = longest[ttl]
    return written


def call_usage(served: Served, *, output: int = 0, reasoning: int = 0) -> Usage:
    """The usage of a call, in tokens.

    Args:
        served: Tokens of its prompt that were read from the cache, written and neither.
        output: Tokens generated, other than reasoning.
        reasoning: Tokens of reasoning.
    """
    written = {WRITE_PREFIX + ttl: tokens for ttl, tokens in served.written.items()}
    return Usage(
        input=served.fresh, cache_read=served.read, output=output, reasoning=reasoning, **written
    )
