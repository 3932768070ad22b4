"""The places where each kind of cache stores prefixes and looks for them, as far as we can know.

Places are counted in blocks from the start: 0 is the empty prefix. The caches' rules in tokens are
in ``proxy.caches``.

A prompt's tokens are known once it was answered; those of its parts are estimated. Near the least
that a cache stores, an estimate says little, and only an answer tells whether a part is kept:
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

#: The cache in which nothing but what is marked is stored.
_ANTHROPIC: Final = "anthropic-breakpoint"
#: Factor above the least at which an estimate may be and still mean less.
_ESTIMATE_ERROR_FACTOR: Final = 1.4
#: Bytes of a prefix, as measured.
_PREFIX_BYTES: Final = 140
#: Seconds after which a prefix is given another chance: it may have been lost, not left out.
_RETRY_AFTER_S: Final = 3600.0


def stores_marks_alone(call: SentCall) -> bool:
    """True if nothing is stored, and paid for, but what a mark ends."""
    return call.regime.name == _ANTHROPIC or call.explicit


def stores_at_breakpoints(regime: Regime) -> bool:
    """True if what is stored ends at breakpoints; else the longest prefix seen is read."""
    return regime.takes_marks or regime.name == "prefix-unit"


def entry_keys(call: SentCall, end: int) -> tuple[int, ...]:
    """The keys of entries at the end of a block that the call reads."""
    point = call.entry_points[end]
    return tuple(point + by for by in readable_writers(explicit=call.explicit))


def lookup_places(call: SentCall) -> Sequence[int]:
    """Number of blocks before each place where an entry is looked for, the longest first."""
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
    """Number of blocks before each breakpoint, its lifetime, and who writes it.

    Args:
        known_blocks: Number of its blocks that were sent before.
        scale: Tokens of its bytes; by estimate where left out.
    """
    if call.regime.name == "prefix-unit":
        ends = _unit_ends(call, known_blocks, scale or call.scale())
        return [(end, "", BY_RULE) for end in ends]
    return call.once(_marked_breakpoints)


def _marked_breakpoints(call: SentCall) -> Sequence[tuple[int, str, int]]:
    """The breakpoints that a cache with marks writes, whatever was sent before."""
    if call.regime.name == "openai-breakpoint":
        rules = openai_breakpoint.provider_rules(call.regime.provider)
        written = openai_breakpoint.written_breakpoints(call, call.implicit_breakpoints, rules)
        return [(block + 1, ttl, by) for block, ttl, by in written]
    marks = marked_blocks(call)
    written_marks = marks[max(0, len(marks) - call.regime.marks) :]
    return [(block + 1, call.marks[block], BY_MARK) for block in written_marks]


def _unit_ends(call: SentCall, known_blocks: int, scale: TokenScale) -> list[int]:
    """Number of blocks before the first end at or behind the end of each unit that is kept."""
    ends = [scale.tokens_of(size) for size in call.ends]
    lengths = prefix_unit.unit_lengths(ends[-1], prefix_unit.DEEPSEEK, shared=ends[known_blocks])
    return sorted({bisect_left(ends, length) for length in lengths} - {0})


def used_places(call: SentCall, hit: int, scale: TokenScale) -> Sequence[int]:
    """The places where it looks whose entries live on with a read, the longest first.

    Args:
        hit: Number of blocks before the end of the entry that is read.
        scale: Tokens of its bytes.
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
    """The life of an entry that a call writes now, over the one that stood there."""
    if call.regime.name == "prefix-unit":
        return prefix_unit.unit_life(before, now, prefix_unit.DEEPSEEK)
    return EntryLife(now, lifetime_s(call.regime, ttl))


class StoredEntries(NamedTuple):
    """The entries at the end of a prefix, by who wrote them."""

    by_mark: EntryLife | None = None
    by_rule: EntryLife | None = None

    def readable_entry(self, *, explicit: bool) -> EntryLife | None:
        """The entry that is read; of two, the one that lives longer."""
        mark, rule = self.by_mark, self.by_rule
        if rule is None or not _reads_rules(explicit=explicit):
            return mark
        return rule if mark is None else max(mark, rule, key=lambda life: life.ends)

    def after_read(self, now: float, *, explicit: bool) -> "StoredEntries":
        """The same once it was read."""
        mark, rule = self.by_mark, self.by_rule
        if rule is not None and _reads_rules(explicit=explicit):
            rule = rule.after_use(now)
        return StoredEntries(mark and mark.after_use(now), rule)

    def after_write(self, call: SentCall, ttl: str, by: int, now: float) -> "StoredEntries":
        """The same once a call wrote it."""
        if by == BY_MARK:
            return self._replace(by_mark=written_life(call, ttl, self.by_mark, now))
        return self._replace(by_rule=written_life(call, ttl, self.by_rule, now))


def _reads_rules(*, explicit: bool) -> bool:
    return BY_RULE in readable_writers(explicit=explicit)


def lifetime_s(regime: Regime, ttl: str) -> float:
    """Seconds of a lifetime; the shortest for an unknown one, no end where only room matters."""
    if ttl in regime.lifetimes:
        return regime.lifetimes[ttl]
    return min(regime.lifetimes.values(), default=inf)


def has_stored_nothing(regime: Regime, usage: Usage | None) -> bool:
    """True if the provider says, by the bill for it, that nothing was stored or found."""
    return bool(usage and regime.writes and not usage.cache_write_tokens and not usage.cache_read)


class UnstoredPrefixes:
    """Prefixes of which an answer said that they are not stored.

    Only those are taken for such whose estimate is near the least.
    """

    def __init__(self) -> None:
        self._until: LruCache[int, float] = LruCache(entry_bytes=_PREFIX_BYTES)
        self.indexes = (self._until,)

    def is_unstored(self, point: int, now: float) -> bool:
        """True if the prefix that ends here is known not to be stored."""
        return (self._until.peek(point) or 0.0) > now

    def record_answer(
        self, call: SentCall, hit: int, scale: TokenScale, usage: Usage, now: float
    ) -> bool:
        """Learn from an answer; whether a prefix proved not to be stored.

        Args:
            hit: Number of blocks before the end of the longest entry that should be there.
            scale: Tokens of its bytes.
        """
        if call.regime.name != _ANTHROPIC:
            return False
        doubted: list[int] = []
        if has_stored_nothing(call.regime, usage):
            doubted = [block + 1 for block in call.marks if 0 <= block < len(call.blocks)]
        elif hit and not usage.cache_read:
            doubted = [hit]
        if not all(self._is_near(call, place, scale) for place in doubted):
            return False  # what is long enough by far was refused, or was lost
        for place in doubted:
            self._until.put(call.points[place], now + _RETRY_AFTER_S)
        if hit and usage.cache_read:
            self._until.put(call.points[hit], 0.0)
        return bool(doubted)

    def _is_near(self, call: SentCall, place: int, scale: TokenScale) -> bool:
        end = call.ends[place]  # images behind it make the prompt's average too high for it
        tokens = min(scale.tokens_of(end), end // BYTES_PER_TOKEN)
        return tokens < call.regime.least * _ESTIMATE_ERROR_FACTOR
