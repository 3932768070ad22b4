"""The places where each kind of cache looks for prefixes and writes them, and entries' lifetimes.

A place is a number of blocks from the start: 0 is the empty prefix. The caches' rules in tokens are
in ``proxy.caches``. Here they are applied to a call: where a cache looks up entries, which it reads
and renews, which it writes, and how long an entry lives.

A prompt's tokens are known once it was answered; the tokens of its parts are estimated. Near the
minimum cacheable length an estimate is too inexact, and only an answer shows if a part was stored:
``UnstoredPrefixes`` remembers prefixes that were marked and yet not stored.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from proxy.caches import (
    anthropic_breakpoint,
    openai_breakpoint,
    prefix_unit,
)
from proxy.caches.entries import BY_MARK, BY_RULE, EntryLife
from proxy.caches.openai_breakpoint import readable_writers
from proxy.caches.port import marked_blocks
from proxy.caches.regime import Regime
from proxy.prefix.prediction.sent_call import SentCall, TokenScale
from proxy.prefix.prompts.prompt import BYTES_PER_TOKEN
from proxy.records.lru_cache import LruCache
from slo.usage import Usage

#: The cache that stores only prefixes that end at a mark.
_ANTHROPIC: Final = "anthropic-breakpoint"
#: Estimates up to this factor above the minimum cacheable length may still be below it in truth.
_ESTIMATE_ERROR_FACTOR: Final = 1.4
#: Bytes that a remembered prefix takes, as measured.
_PREFIX_BYTES: Final = 140
#: Seconds until an unstored prefix is tried again: it may have been evicted, not refused.
_RETRY_AFTER_S: Final = 3600.0


def stores_marks_alone(call: SentCall) -> bool:
    """True if only prefixes that end at a mark are stored and paid for."""
    return call.regime.name == _ANTHROPIC or call.explicit


def stores_at_breakpoints(regime: Regime) -> bool:
    """True if entries end at breakpoints; otherwise the longest prefix seen is read."""
    return regime.takes_marks or regime.name == "prefix-unit"


def entry_keys(call: SentCall, end: int) -> tuple[int, ...]:
    """The keys of the entries at the end of a block that the call can read."""
    point = call.entry_points[end]
    return tuple(point + writer for writer in readable_writers(explicit=call.explicit))


def lookup_places(call: SentCall) -> Sequence[int]:
    """The places where the cache looks for an entry, in blocks, the longest prefix first."""
    return call.once(_lookup_places)


def _lookup_places(call: SentCall) -> Sequence[int]:
    if call.regime.name == "prefix-unit":
        return range(len(call.blocks), 0, -1)
    if call.regime.name == "openai-breakpoint":
        rules = openai_breakpoint.provider_rules(call.regime.provider)
        blocks = openai_breakpoint.lookup_blocks(call, call.implicit_breakpoints, rules)
        return sorted([block + 1 for block in blocks], reverse=True)
    places: set[int] = set()
    runs = anthropic_breakpoint.provider_rules(call.regime.provider).runs
    for mark in marked_blocks(call):
        lookback = anthropic_breakpoint.lookback_blocks(
            call.blocks, mark, lookback=call.regime.lookback, runs=runs
        )
        places.update(range(lookback.stop + 2, lookback.start + 2))
    return sorted(places, reverse=True)


def written_breakpoints(
    call: SentCall, known_blocks: int, scale: TokenScale | None = None
) -> Sequence[tuple[int, str, int]]:
    """Each breakpoint that a call writes: blocks before it, lifetime, and writer.

    Args:
        known_blocks: Number of the call's blocks that were sent before.
        scale: Converts the call's bytes to tokens; an estimate if None.
    """
    if call.regime.name == "prefix-unit":
        ends = _unit_ends(call, known_blocks, scale or call.scale())
        return [(end, "", BY_RULE) for end in ends]
    return call.once(_marked_breakpoints)


def _marked_breakpoints(call: SentCall) -> Sequence[tuple[int, str, int]]:
    """The breakpoints written by a cache with marks; they do not depend on earlier calls."""
    if call.regime.name == "openai-breakpoint":
        rules = openai_breakpoint.provider_rules(call.regime.provider)
        written = openai_breakpoint.written_breakpoints(call, call.implicit_breakpoints, rules)
        return [(block + 1, ttl, writer) for block, ttl, writer in written]
    marks = marked_blocks(call)
    written_marks = marks[max(0, len(marks) - call.regime.marks) :]
    return [(block + 1, call.marks[block], BY_MARK) for block in written_marks]


def _unit_ends(call: SentCall, known_blocks: int, scale: TokenScale) -> list[int]:
    """For each stored unit, the first block end at or after the unit's end, in blocks."""
    ends = [scale.tokens_of(size) for size in call.ends]
    lengths = prefix_unit.unit_lengths(ends[-1], prefix_unit.DEEPSEEK, shared=ends[known_blocks])
    return sorted({bisect_left(ends, length) for length in lengths} - {0})


def used_places(call: SentCall, hit: int, scale: TokenScale) -> Sequence[int]:
    """The lookup places whose entries a read renews, the longest prefix first.

    Args:
        hit: Number of blocks in the entry that is read.
        scale: Converts the call's bytes to tokens.
    """
    places = lookup_places(call)
    if call.regime.name not in ("openai-breakpoint", "prefix-unit"):
        used = anthropic_breakpoint.refreshed_blocks(hit - 1, marked_blocks(call))
        return [block + 1 for block in reversed(used) if block + 1 in places]
    places = [place for place in places if place <= hit]
    if call.regime.name == "openai-breakpoint":
        return places
    steps = [scale.tokens_of(call.ends[place]) // call.regime.block for place in places]
    return places[: steps.count(steps[0])]


def written_life(call: SentCall, ttl: str, before: EntryLife | None, now: float) -> EntryLife:
    """The lifetime of an entry that a call writes now, which may replace an earlier entry."""
    if call.regime.name == "prefix-unit":
        return prefix_unit.unit_life(before, now, prefix_unit.DEEPSEEK)
    return EntryLife(now, lifetime_s(call.regime, ttl))


class StoredEntries(NamedTuple):
    """The entries at the end of a prefix, by their writer: a mark or the provider's rule."""

    by_mark: EntryLife | None = None
    by_rule: EntryLife | None = None

    def readable_entry(self, *, explicit: bool) -> EntryLife | None:
        """The entry that a call reads; of two, the one that lives longer."""
        mark, rule = self.by_mark, self.by_rule
        if rule is None or not _reads_rules(explicit=explicit):
            return mark
        return rule if mark is None else max(mark, rule, key=lambda life: life.ends)

    def after_read(self, now: float, *, explicit: bool) -> "StoredEntries":
        """These entries after a read now."""
        mark, rule = self.by_mark, self.by_rule
        if rule is not None and _reads_rules(explicit=explicit):
            rule = rule.after_use(now)
        return StoredEntries(mark and mark.after_use(now), rule)

    def after_write(self, call: SentCall, ttl: str, writer: int, now: float) -> "StoredEntries":
        """These entries after a write now."""
        if writer == BY_MARK:
            return self._replace(by_mark=written_life(call, ttl, self.by_mark, now))
        return self._replace(by_rule=written_life(call, ttl, self.by_rule, now))


def _reads_rules(*, explicit: bool) -> bool:
    return BY_RULE in readable_writers(explicit=explicit)


def lifetime_s(regime: Regime, ttl: str) -> float:
    """Seconds of a named lifetime; the shortest if unknown, infinite if the regime sets none."""
    if ttl in regime.lifetimes:
        return regime.lifetimes[ttl]
    return min(regime.lifetimes.values(), default=inf)


def has_stored_nothing(regime: Regime, usage: Usage | None) -> bool:
    """True if the provider bills writes and billed neither a cache write nor a cache read."""
    return bool(usage and regime.writes and not usage.cache_write_tokens and not usage.cache_read)


class UnstoredPrefixes:
    """Prefixes that an answer showed not to be stored.

    Only prefixes whose estimate is near the minimum cacheable length are recorded.
    """

    def __init__(self) -> None:
        self._until: LruCache[int, float] = LruCache(entry_bytes=_PREFIX_BYTES)
        self.indexes = (self._until,)

    def is_unstored(self, point: int, now: float) -> bool:
        """True if the prefix that ends at this point is known not to be stored."""
        return (self._until.peek(point) or 0.0) > now

    def record_answer(
        self, call: SentCall, hit: int, scale: TokenScale, usage: Usage, now: float
    ) -> bool:
        """Learn from an answer; True if it showed that a prefix is not stored.

        Args:
            hit: Number of blocks in the longest entry that should be stored.
            scale: Converts the call's bytes to tokens.
        """
        if call.regime.name != _ANTHROPIC:
            return False
        doubted: list[int] = []
        if has_stored_nothing(call.regime, usage):
            doubted = [block + 1 for block in call.marks if 0 <= block < len(call.blocks)]
        elif hit and not usage.cache_read:
            doubted = [hit]
        if not all(self._is_near(call, place, scale) for place in doubted):
            return False  # a prefix well above the minimum was refused or evicted, not too short
        for place in doubted:
            self._until.put(call.points[place], now + _RETRY_AFTER_S)
        if hit and usage.cache_read:
            self._until.put(call.points[hit], 0.0)
        return bool(doubted)

    def _is_near(self, call: SentCall, place: int, scale: TokenScale) -> bool:
        end = call.ends[place]  # images after it make the prompt's average tokens per byte too high
        tokens = min(scale.tokens_of(end), end // BYTES_PER_TOKEN)
        return tokens < call.regime.least * _ESTIMATE_ERROR_FACTOR
