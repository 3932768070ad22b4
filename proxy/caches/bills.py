"""Splits a prompt's tokens into read, written and fresh, and into a call's usage."""

from collections.abc import Iterable, Mapping

from proxy.caches.port import Served, Ttl
from slo.usage import Usage


def bill_prompt(
    total: int, hit: int, writes: Iterable[tuple[int, Ttl]], lifetimes: Mapping[Ttl, float]
) -> Served:
    """Bill a prompt of which ``hit`` tokens are read and prefixes are written beyond them.

    Each token is charged once, at the longest lifetime any written prefix keeps it for. With A the
    hit, B the longest prefix written for an hour and C the longest written at all, that is: read A,
    write B - A for an hour, write C - B for five minutes.

    Source: Anthropic, prompt caching, mixing TTLs (2026-08); OpenAI, prompt caching, a token is
    charged once (2026-09).

    Args:
        total: Tokens of the prompt.
        hit: Tokens read.
        writes: The length of each written prefix, in tokens, and its lifetime.
        lifetimes: Seconds of each lifetime the provider sells.
    """
    longest: dict[Ttl, int] = {}
    for tokens, ttl in writes:
        longest[ttl] = max(tokens, longest.get(ttl, 0))
    written: dict[Ttl, int] = {}
    reached = hit
    for ttl in sorted(longest, key=lambda ttl: -lifetimes[ttl]):
        if longest[ttl] > reached:
            written[ttl] = longest[ttl] - reached
            reached = longest[ttl]
    return Served(read=hit, fresh=total - reached, written=written)


def call_usage(served: Served, *, output: int = 0, reasoning: int = 0) -> Usage:
    """The usage of a call, in tokens.

    Args:
        served: Tokens of its prompt that were read from the cache, written and neither.
        output: Tokens generated, other than reasoning.
        reasoning: Tokens of reasoning.
    """
    written = {f"write_{ttl}": tokens for ttl, tokens in served.written.items()}
    return Usage(
        input=served.fresh, cache_read=served.read, output=output, reasoning=reasoning, **written
    )
