"""The policy of compaction: mode, limits and prices."""

from enum import StrEnum
from typing import Final

import msgspec


class CompactionMode(StrEnum):
    """The mode of compaction for a feature; each includes the ones before it, but native."""

    OFF = "off"  #: Sent unmodified.
    TRIM = "trim"  #: Tool results shortened without loss, when they first come.
    FACTS = "facts"  #: Old turns become facts, by rules alone.
    FACTS_RECALL = "facts+recall"  #: The model may ask for the old turns again.
    NATIVE = "native"  #: The provider compacts; nothing is compacted here.


FACTS_MODES: Final = frozenset({CompactionMode.FACTS, CompactionMode.FACTS_RECALL})
"""The modes in which old turns become facts."""

#: Minimum tokens of a cache's step for the cache to count as coarse.
_COARSE_STEP_TOKENS: Final = 1_024
#: Minimum length of a prompt, in such steps, for its results to be shortened as they come.
_MIN_COARSE_STEPS: Final = 4
#: Minimum length of a prompt that is shortened, as a ratio to the shortest that is cached: tokens
#: are counted by estimate.
_MIN_LEAST_RATIO: Final = 1.1


class RelativePrices(msgspec.Struct, frozen=True):
    """Prices of a route, relative to a token of input that no cache knows.

    Attributes:
        read: A token read from the cache.
        write: A token that is written to it.
        output: A token generated.
        least: Tokens that a prompt must have to be cached at all.
        block: Tokens in whose multiples a part of an earlier prompt is read; 0 where none surely
            is, but all of it.
    """

    read: float = 1.0
    write: float = 1.0
    output: float = 4.0
    least: int = 0
    block: int = 1

    @property
    def min_trim_tokens(self) -> int:
        """Tokens of a prompt from which results are shortened as they come.

        One made shorter can fall below a step of its cache, or below its least, and cost more: so
        on coarse ones only where it is some steps long. Measured, tests/bench/README.md.
        """
        return max(_MIN_COARSE_STEPS * self.coarse_step_tokens, self._min_cached_tokens)

    @property
    def min_cut_tokens(self) -> int:
        """Tokens of a prompt from which long results are cut once they were shown."""
        return max(self.coarse_step_tokens, self._min_cached_tokens, 1)

    @property
    def coarse_step_tokens(self) -> int:
        """Tokens of the cache's step where it reads in coarse steps; 0 elsewhere.

        As many must be saved on the results so far before any is shortened as it comes: a prompt
        that is shorter by less passes each step some calls later, and a call that finds it not
        passed yet reads a step less. Measured, tests/bench/README.md.
        """
        return self.block if self.block >= _COARSE_STEP_TOKENS else 0

    @property
    def _min_cached_tokens(self) -> int:
        """Tokens, by estimate, of a prompt that is surely long enough to be cached."""
        return int(_MIN_LEAST_RATIO * self.least)


class CompactionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy for a conversation; equal policies compact equal conversations to equal bytes.

    Attributes:
        mode: Limit of what compaction may do.
        prices: Relative prices of tokens.
        keep_turns: The last turns that stay unmodified; at least 1, for the request does.
        target: Tokens the whole prompt should come down to; 0 for as far as facts go by themselves.
        window: Most tokens that the model takes; 0 for not known.
        force: True to compact as soon as there is enough to compact, even where that does not pay.
        once: True if only the last call decides, as if none had been made before.
        safety: Number of times over that as many calls as were made must pay a compaction back; 0
            for the usual.
        least: Tokens below which nothing is compacted.
        drops_signed: True if the provider lets closed turns go with the signed content they hold;
            False if nothing that stands before such content may change.
        thinks: True if answers may hold signed content although none was seen yet.
    """

    mode: CompactionMode = CompactionMode.FACTS
    prices: RelativePrices = RelativePrices()
    keep_turns: int = 3
    target: int = 0
    window: int = 0
    force: bool = False
    once: bool = False
    safety: float = 0.0
    least: int = 2_048
    drops_signed: bool = False
    thinks: bool = False

    @property
    def is_recalled(self) -> bool:
        """True if the model may recall what is compacted."""
        return self.mode is CompactionMode.FACTS_RECALL
