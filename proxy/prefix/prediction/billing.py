"""Predicts a prompt's cost at a route's cache, in fresh tokens, and how its tokens are served."""

from collections.abc import Iterator
from typing import Final

from proxy.caches.bills import charged_writes
from proxy.caches.regime import Regime
from proxy.prefix.prediction.lookups import written_breakpoints
from proxy.prefix.prediction.prefix_chains import ExpectedRead
from proxy.prefix.prediction.sent_call import SentCall
from slo.usage import Usage

_WRITE: Final = "write_"


def expected_usage(sent: SentCall, expected: ExpectedRead, total: int) -> Usage:
    """Predict how a prompt's tokens are served: read, written by lifetime, and fresh.

    Args:
        sent: The prompt.
        expected: Expected contents of its cache.
        total: Its tokens.
    """
    regime, expected = sent.regime, expected.rescale(total)
    read = min(expected.tokens, total)
    writes = _written_tokens(sent, expected, total) if regime.writes else ()
    spans = {ttl: regime.lifetimes.get(ttl, 0.0) for ttl in regime.writes}
    written = charged_writes(read, writes, spans)
    fields = {_WRITE + ttl: tokens for ttl, tokens in written.items()}
    return Usage(input=total - read - sum(written.values()), cache_read=read, **fields)


def prompt_cost(usage: Usage, regime: Regime) -> float:
    """Cost of a prompt at this cache, in tokens at the price of fresh ones.

    Args:
        usage: Its tokens, by how they are served.
        regime: The cache, with its prices as multiples of a fresh token's.
    """
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


def _written_tokens(
    sent: SentCall, expected: ExpectedRead, total: int
) -> Iterator[tuple[int, str]]:
    """Tokens up to each breakpoint that is written, and its lifetime; too short ones left out."""
    regime, scale = sent.regime, expected.scale
    for at, ttl, _ in written_breakpoints(sent, expected.same, scale):
        tokens = min(scale.tokens_of(sent.ends[at]), total)
        if tokens >= regime.least:
            yield tokens, ttl if ttl in regime.writes else regime.usual_ttl
