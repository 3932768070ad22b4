"""Token budget and counters of cache warming: what it may use, what it cost, what it gained.

Warming has an idle replica read a prompt before the call that needs it comes.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_MINUTE_S: Final = 60.0


class WarmingKind(StrEnum):
    """A kind of prompt that is read ahead."""

    SYSTEM_PROMPT = "system_prompt"
    NEXT_TURN = "next_turn"
    TYPED = "typed"  # sent to ``/v1/thriftgate/prefill`` while a person typed it


class WarmingResult(StrEnum):
    """Result of a prompt that was to be warmed."""

    WARMED = "warmed"
    CANCELLED = "cancelled"  # a call came
    REFUSED = "refused"  # by a budget or ceiling of its team
    FAILED = "failed"  # the engine answered with an error, or not in time
    OVER_BUDGET = "over_budget"  # the profile's tokens per minute are used up
    BUSY = "busy"  # the replica was not idle in time


class TokenBudget:
    """Tokens that may be read ahead in a minute; what is not used is not saved up."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._left = float(per_minute)
        self._at = 0.0

    def take(self, tokens: int, now: float) -> bool:
        """Take tokens; False where they are not left, and none are taken."""
        gained = max(0.0, now - self._at) / _MINUTE_S * self.per_minute
        self._left, self._at = min(self._left + gained, float(self.per_minute)), now
        if tokens > self._left:
            return False
        self._left -= tokens
        return True

    def correct(self, estimated: int, used: int) -> None:
        """Replace an estimate that was taken by what was used; the rest may become negative."""
        self._left = min(self._left + estimated - used, float(self.per_minute))


@dataclass(slots=True)
class WarmingAccounts:
    """Counters of one gateway, each by the profile and the kind first.

    Attributes:
        results: Prompts by their result.
        tokens: Prompt tokens that engines computed for warming.
        nanos: Nano-dollars of it, as far as they are known.
        used_calls: Calls that found their beginning warmed.
        used_tokens: Tokens that they read of it from the cache.
        saved_s: Seconds in which their replicas would have computed these, at the rate of prefill
            that was measured there.
    """

    results: Counter[tuple[str, WarmingKind, WarmingResult]] = field(default_factory=Counter)
    tokens: Counter[tuple[str, WarmingKind]] = field(default_factory=Counter)
    nanos: Counter[tuple[str, WarmingKind]] = field(default_factory=Counter)
    used_calls: Counter[tuple[str, WarmingKind]] = field(default_factory=Counter)
    used_tokens: Counter[tuple[str, WarmingKind]] = field(default_factory=Counter)
    saved_s: dict[tuple[str, WarmingKind], float] = field(default_factory=dict)

    def note_use(self, engine: str, kind: WarmingKind, tokens: int, rate: float) -> None:
        """Count a call that found its beginning warmed.

        Args:
            rate: Prompt tokens that the replica computes in a second; 0 where unknown.
        """
        key = engine, kind
        self.used_calls[key] += 1
        self.used_tokens[key] += tokens
        if rate > 0.0:
            self.saved_s[key] = self.saved_s.get(key, 0.0) + tokens / rate
