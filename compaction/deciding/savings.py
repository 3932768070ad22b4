"""What shortening saved in money: smaller is not always cheaper.

A shorter prompt that moved its cache is written anew, and a small model that found facts was paid
too. So what counts is what the call as it came would have cost, less what it did cost. Sums are
whole nano-dollars (1e-9 US dollars); answers cost the same either way and are left out.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

#: Calls before anything is said of a window: the calls after a fold have to pay it back first.
LEAST: Final = 50
#: Part of what calls as they came would have cost that may be lost without an alert.
TOLERANCE: Final = 0.01

_MILLION: Final = 1_000_000


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Nano-dollars per million tokens; ``write`` is ``input`` where writing costs nothing more."""

    input: int
    read: int
    write: int


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a prompt as the provider counted them, each once.

    Attributes:
        input: At the ordinary price.
        cache_read: Read from the cache.
        cache_write: Written to it.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def tokens(self) -> int:
        """Tokens in all."""
        return self.input + self.cache_read + self.cache_write


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What shortening came to, for one call or for many.

    Attributes:
        gross: What the tokens that were not sent cost at the ordinary price.
        net: What was truly saved; below 0 where it was dearer.
        without: What the prompts would have cost as they came.
        shorter: Tokens that were not sent.
        calls: How many calls.
    """

    gross: int = 0
    net: int = 0
    without: int = 0
    shorter: int = 0
    calls: int = 0

    def __add__(self, other: "Saved") -> "Saved":
        return Saved(
            gross=self.gross + other.gross,
            net=self.net + other.net,
            without=self.without + other.without,
            shorter=self.shorter + other.shorter,
            calls=self.calls + other.calls,
        )


def warm(before: int, gap: float, lifetime: float) -> int:
    """Tokens that a prompt as it came would have found in the cache.

    Args:
        before: Tokens of the conversation's call before, as it came; 0 for none.
        gap: Seconds since that call.
        lifetime: Seconds that the cache keeps what was used.
    """
    return before if gap <= lifetime else 0


def saved(raw: int, cached: int, sent: Sent, rates: Rates, asked: int = 0) -> Saved:
    """What shortening saved on a call.

    What no cache held would have been written, or not, as it was in the call that was made.

    Args:
        raw: Tokens of the prompt as it came, by the same count as ``sent``.
        cached: Those of them that the cache would have held; see ``warm``.
        sent: What was sent instead.
        rates: What tokens cost.
        asked: Nano-dollars that a small model was paid for this call's conversation since the
            call before.
    """
    read = max(min(cached, raw), 0)
    without = (read * rates.read + (raw - read) * _uncached(sent, rates)) // _MILLION
    paid = (
        sent.input * rates.input + sent.cache_read * rates.read + sent.cache_write * rates.write
    ) // _MILLION
    shorter = raw - sent.tokens
    return Saved(
        gross=shorter * rates.input // _MILLION,
        net=without - paid - asked,
        without=without,
        shorter=shorter,
        calls=1,
    )


def total(each: Iterable[Saved]) -> Saved:
    """All of them together; nothing of nothing."""
    return sum(each, Saved())


def dearer(window: Saved, *, least: int = LEAST, tolerance: float = TOLERANCE) -> bool:
    """Whether over a window prompts became shorter and bills higher.

    Args:
        window: The sum of its calls.
        least: Calls below which nothing is said.
        tolerance: Part of the cost without that may be lost unsaid.
    """
    if window.calls < least or window.shorter <= 0:
        return False
    return window.net < -tolerance * window.without


def _uncached(sent: Sent, rates: Rates) -> int:
    """What a token cost on average that was not read from the cache."""
    tokens = sent.input + sent.cache_write
    if tokens <= 0:
        return rates.input
    return (sent.input * rates.input + sent.cache_write * rates.write) // tokens
