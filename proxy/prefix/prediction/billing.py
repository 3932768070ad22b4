"""Predicts a prompt's cost at a route's cache, in fresh tokens, and how its tokens are served."""

from typing import Final

from proxy.caches.regime import Regime
from proxy.prefix.prediction.lookups import written_breakpoints
from proxy.prefix.prediction.prefix_chains import ExpectedRead
from proxy.prefix.prediction.sent_call import SentCall
from slo.usage import Usage

_WRITE: Final = "write_"


def expected_usage(sent: SentCall, expected: ExpectedRead, total: int) -> Usage:
    """Predict how a prompt's tokens are served: read, written by lifetime, and fresh.

    A token is charged once, at the longest lifetime that keeps it.

    Source: Anthropic, prompt caching, mixed lifetimes (2026-08); OpenAI, prompt caching guide
    (2026-09).

    Args:
        sent: The prompt.
        expected: Expected contents of its cache.
        total: Its tokens.
    """
    regime, expected = sent.regime, expected.rescale(total)
    read = min(expected.tokens, total)
    upto, written = read, {}
    ends = _written_tokens(sent, expected, total) if regime.writes else {}
    for ttl in sorted(ends, key=lambda ttl: -regime.lifetimes.get(ttl, 0.0)):
        if ends[ttl] > upto:
            written[_WRITE + ttl] = ends[ttl] - upto
            upto = ends[ttl]
    return Usage(input=total - upto, cache_read=read, **written)


def prompt_cost(usage: Usage, regime: Regime) -> float:
    """Cost of a prompt at this cache, in tokens at the price of fresh ones."""
    written = sum(
        getattr(usage, _WRITE + ttl, 0) * float(times) for ttl, times in regime.writes.items()
    )
    return usage.input + usage.cache_read * float(regime.read) + written


def write_surcharge(usage: Usage, regime: Regime) -> float:
    """Surcharge of writing over sending the same tokens fresh, in tokens at their price."""
    return sum(
        getattr(usage, _WRITE + ttl, 0) * (float(times) - 1.0)
        for ttl, times in regime.writes.items()
    )


def _written_tokens(sent: SentCall, expected: ExpectedRead, total: int) -> dict[str, int]:
    """Tokens up to the last breakpoint that is written, by lifetime; too short ones left out."""
    regime, scale = sent.regime, expected.scale
    usual = min(regime.writes, key=lambda ttl: regime.lifetimes.get(ttl, 0.0))
    found: dict[str, int] = {}
    for at, ttl, _ in written_breakpoints(sent, expected.same):
        tokens = min(scale.tokens_of(sent.ends[at]), total)
        if tokens >= regime.least:
            sold = ttl if ttl in regime.writes else usual
            found[sold] = max(found.get(sold, 0), tokens)
    return found
