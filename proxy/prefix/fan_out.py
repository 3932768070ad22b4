"""True if a call waits until another, which is writing the same prefix, can be read from."""

from fractions import Fraction
from typing import Final

import msgspec

from proxy.caches.regime import Regime

#: Nobody waits longer than this, in seconds, whatever it saves.
MAX_WAIT_S: Final = 5.0
#: A first byte this many times later than expected is not waited for any more.
_LATE: Final = 2.0


class PrefixWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A call under way that nobody can read from yet.

    Attributes:
        since: When it was sent.
        tokens: What it shares with the call that might wait, beyond what is cached already.
        first_byte: Seconds its first byte is expected to take; 0 for unknown.
        ttl: The lifetime the call that might wait would write these tokens with; "" for fresh.
    """

    since: float
    tokens: int
    first_byte: float
    ttl: str = ""


def max_wait_s(
    writing: PrefixWrite, regime: Regime, now: float, fresh: float, second: float
) -> float:
    """Seconds to wait at most for its first byte; 0 for going at once.

    It pays to wait where reading instead of writing saves more than the waiting costs.

    Args:
        writing: The call to wait for.
        regime: The cache both use.
        now: Seconds, on the clock of ``since``.
        fresh: What a fresh token costs, in nano-dollars.
        second: What a second of waiting may cost, in nano-dollars; 0 where nobody minds.

    Source: Anthropic, prompt caching (2026-08): an entry can be used once the first response
    begins.
    """
    left = writing.first_byte - (now - writing.since)
    if writing.tokens < max(1, regime.least):
        return 0.0
    if writing.first_byte <= 0 or left <= 0 or left > MAX_WAIT_S:
        return 0.0
    price = regime.writes.get(writing.ttl, Fraction(1)) - regime.read
    if float(price) * writing.tokens * fresh <= left * second:
        return 0.0
    return min(MAX_WAIT_S, left * _LATE)
