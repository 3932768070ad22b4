"""Prefixes that were marked and yet not stored: they hold fewer tokens than was estimated.

A prompt's tokens are known once it was answered; those of its parts are estimated. Near the least
that a cache stores, an estimate says little, and only an answer tells whether a part is kept.
"""

from typing import Final

from proxy.prefix.prediction.lookups import has_stored_nothing
from proxy.prefix.prediction.sent import SentCall, TokenScale
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN
from proxy.prefix.prompts.recent import LruCache
from slo.usage import Usage

#: The cache in which nothing but what is marked is stored.
_ANTHROPIC: Final = "anthropic-breakpoint"
#: How far above the least an estimate may be and still mean less.
_ROUGH: Final = 1.4
#: Prefixes kept: 1 MB.
_MOST: Final = 10_000
#: Seconds after which a prefix is given another chance: it may have been lost, not left out.
_REST: Final = 3600.0


class UnstoredPrefixes:
    """Prefixes of which an answer said that they are not stored; the least recently noted go first.

    Only those are taken for such whose estimate is near the least.
    """

    def __init__(self) -> None:
        self._until: LruCache[int, float] = LruCache(_MOST)

    def has(self, point: int, now: float) -> bool:
        """True if the prefix that ends here is known not to be stored."""
        return (self._until.peek(point) or 0.0) > now

    def observe(
        self, sent: SentCall, hit: int, scale: TokenScale, usage: Usage, now: float
    ) -> bool:
        """Learn from an answer; whether a prefix proved not to be stored.

        Args:
            sent: The call.
            hit: How many blocks stand before the end of the longest entry that should be there.
            scale: How many tokens its bytes are.
            usage: What its provider counted.
            now: When it was sent.
        """
        if sent.regime.name != _ANTHROPIC:
            return False
        doubted: list[int] = []
        if has_stored_nothing(sent.regime, usage):
            doubted = [at + 1 for at in sent.marks if 0 <= at < len(sent.blocks)]
        elif hit and not usage.cache_read:
            doubted = [hit]
        if not all(self._is_near(sent, at, scale) for at in doubted):
            return False  # what is long enough by far was refused, or was lost
        for at in doubted:
            self._until.put(sent.points[at], now + _REST)
        if hit and usage.cache_read:
            self._until.put(sent.points[hit], 0.0)
        return bool(doubted)

    def _is_near(self, sent: SentCall, at: int, scale: TokenScale) -> bool:
        end = sent.ends[at]  # images behind it make the prompt's average too high for it
        tokens = min(scale.tokens_of(end), end // BYTES_PER_TOKEN)
        return tokens < sent.regime.least * _ROUGH
