"""Indexes every prefix that was sent, and what a cache should have stored of it.

::

    expect_read(call) ── before it is sent ──▶ tokens that should be read, and why not more
    record_call(call) ── once it is answered ─▶ its prefixes are known, its marks are stored

Two kinds of cache are told apart. One stores prefixes that end at breakpoints and finds them only
from breakpoints; the other reads the longest prefix it has seen, wherever that ends.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from math import inf
from typing import Any, Final, NamedTuple

import msgspec

from proxy.caches.bills import WRITE_PREFIX, charged_writes
from proxy.caches.entries import EntryLife
from proxy.caches.openai_interval import MinuteCalls
from proxy.caches.regime import Regime
from proxy.prefix.prediction.changes import CACHE_KEY_FIELDS
from proxy.prefix.prediction.leading_texts import LeadingTexts
from proxy.prefix.prediction.lookups import (
    StoredEntries,
    UnstoredPrefixes,
    has_stored_nothing,
    lifetime_s,
    lookup_places,
    stores_at_breakpoints,
    used_places,
    written_breakpoints,
)
from proxy.prefix.prediction.sent_call import SentCall, TokenScale
from proxy.records.lru_cache import LruCache
from slo.usage import Usage


class ExpectedRead(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The part of a prompt that should be read from cache; all but times in its tokens.

    They ascend: what surely is there, what was stored where this call looks, what was stored
    anywhere in it, what was sent before.

    Attributes:
        tokens: Tokens that should be read.
        found: Tokens that could be read if nothing ever died.
        stored: Tokens that could be read if, besides, every block were looked up.
        known: Tokens sent before, stored or not.
        same: Number of its first blocks that were sent before.
        hit: Number of its first blocks up to the end of the longest entry that surely is there.
        idle: Seconds since the longest entry found was used; since the longest prefix known was
            sent, where none was found; None for neither.
        lives: Seconds the longest entry found lives after its last use; None for none.
        calls: Calls of the last minute to the machine that their beginning chooses, if any.
        scale: Scale from the prompt's bytes to tokens, as assumed.
        reaches: Bytes that ``tokens``, ``found`` and ``stored`` are the readable tokens of.
        regime: The cache's rules; None where nothing was found.
    """

    tokens: int = 0
    found: int = 0
    stored: int = 0
    known: int = 0
    same: int = 0
    hit: int = 0
    idle: float | None = None
    lives: float | None = None
    calls: int = 0
    scale: TokenScale = TokenScale()
    reaches: tuple[int, int, int] = (0, 0, 0)
    regime: Regime | None = None

    def rescale(self, total: int) -> "ExpectedRead":
        """The same once the prompt's tokens are known."""
        scale = self.scale.with_total(total)
        if scale == self.scale:
            return self
        rescaled: ExpectedRead | None = self.__dict__.get("rescaled")
        if rescaled is None or rescaled.scale != scale:
            rescaled = self.__dict__["rescaled"] = self._rescale(scale)
        return rescaled

    def _rescale(self, scale: TokenScale) -> "ExpectedRead":
        known_tokens = _rescale_tokens(self.known, self.scale, scale)
        if self.regime is not None:  # what a cache reads in steps is no part of another number
            tokens = _readable(self.regime, scale, self.reaches)
        else:
            counts = self.tokens, self.found, self.stored
            tokens = [_rescale_tokens(count, self.scale, scale) for count in counts]
        changed = dict(zip(_REACHES, tokens, strict=True))
        return msgspec.structs.replace(self, **changed, known=known_tokens, scale=scale)

    def with_entry(self, regime: Regime, blocks: int, size: int) -> "ExpectedRead":
        """The same where an entry of so many blocks and bytes is there, longer than any known."""
        reaches = (size, max(size, self.reaches[1]), max(size, self.reaches[2]))
        tokens = dict(zip(_REACHES, _readable(regime, self.scale, reaches), strict=True))
        known_tokens = max(self.known, self.scale.tokens_of(size))
        return msgspec.structs.replace(
            self, **tokens, known=known_tokens, same=max(self.same, blocks), hit=blocks,
            reaches=reaches, regime=regime, idle=0.0,
        )  # fmt: skip


def expected_usage(call: SentCall, expected: ExpectedRead, total: int) -> Usage:
    """Predict how a prompt's tokens are served: read, written by lifetime, and fresh.

    ``total`` are its tokens.
    """
    regime, expected = call.regime, expected.rescale(total)
    read = min(expected.tokens, total)
    writes = _written_tokens(call, expected, total) if regime.writes else ()
    spans = {ttl: regime.lifetimes.get(ttl, 0.0) for ttl in regime.writes}
    written = charged_writes(read, writes, spans)
    fields = {WRITE_PREFIX + ttl: tokens for ttl, tokens in written.items()}
    return Usage(input=total - read - sum(written.values()), cache_read=read, **fields)


def _written_tokens(
    call: SentCall, expected: ExpectedRead, total: int
) -> Iterator[tuple[int, str]]:
    """Tokens up to each breakpoint that is written, and its lifetime; too short ones left out."""
    regime, scale = call.regime, expected.scale
    for place, ttl, _ in written_breakpoints(call, expected.same, scale):
        tokens = min(scale.tokens_of(call.ends[place]), total)
        if tokens >= regime.least:
            yield tokens, ttl if ttl in regime.writes else regime.usual_ttl


#: Fields of an expected read that are what is readable of a number of bytes.
_REACHES: Final = ("tokens", "found", "stored")


def _readable(regime: Regime, scale: TokenScale, sizes: Sequence[int]) -> list[int]:
    """Tokens that are read where the cache holds so many bytes."""
    counts = {size: regime.readable_tokens(scale.tokens_of(size), scale.total) for size in {*sizes}}
    return [counts[size] for size in sizes]


def _rescale_tokens(tokens: int, before: TokenScale, after: TokenScale) -> int:
    """Tokens as another scale has them."""
    if tokens <= after.counted:
        return tokens
    rest = before.total - after.counted
    return after.counted + (
        (tokens - after.counted) * (after.total - after.counted) // rest if rest else 0
    )


class PaperCall(NamedTuple):
    """A call with all its marks, and its usage then; None where its provider did not count."""

    sent: SentCall
    usage: Usage | None


_EntryIndex = LruCache[int, StoredEntries]


class _Reach(NamedTuple):
    """Bytes of a prefix that can be read, the entry that says so, and the blocks before its end."""

    size: int
    entry: EntryLife
    at: int = 0


#: The cache that keeps whole prompts, and what two have in common.
WHOLE_PROMPTS: Final = "prefix-unit"
_NOWHERE: Final = _Reach(0, EntryLife(-inf, 0.0))
#: Bytes of a prefix that was sent, counted, or stored, and of a way to a cache; as measured.
_SENT_BYTES, _COUNTED_BYTES = 110, 110
_STORED_BYTES, _ROUTE_BYTES = 250, 200


class PrefixChainIndex:
    """Prefixes sent and stored, of all calls of this process.

    Args:
        is_brief: True if of prompts whose cache ends at marks only new prefixes are noted: half the
            work, and when the others were sent is not known.
        unstored: Prefixes that are known not to be stored.
    """

    def __init__(self, *, is_brief: bool = False, unstored: UnstoredPrefixes | None = None) -> None:
        self._is_brief = is_brief
        self._recorded = 0
        self._unstored = unstored or UnstoredPrefixes()
        self._sent: LruCache[int, float] = LruCache(entry_bytes=_SENT_BYTES)
        self._counted: LruCache[int, int] = LruCache(entry_bytes=_COUNTED_BYTES)
        self._entries: LruCache[int, StoredEntries] = LruCache(entry_bytes=_STORED_BYTES)
        self._paper: LruCache[int, StoredEntries] = LruCache(entry_bytes=_STORED_BYTES)
        self._texts = LeadingTexts()
        self._routes: LruCache[int, MinuteCalls] = LruCache(entry_bytes=_ROUTE_BYTES)
        prefixes: Sequence[LruCache[int, Any]] = (self._sent, self._counted)
        entries = self._entries, self._paper
        self.indexes = (*prefixes, *entries, *self._texts.indexes, self._routes)

    def __len__(self) -> int:
        """Everything kept, of all kinds."""
        return sum(map(len, self.indexes))

    def expect_read(self, call: SentCall, now: float) -> ExpectedRead:
        """Predict the read of a prompt that is sent now."""
        known_blocks, scale = self._known_prefix(call)
        if stores_at_breakpoints(call.regime):
            reached = self._longest_at_breakpoints(call, known_blocks, now, self._entries)
        else:
            reached = self._longest_anywhere(call, known_blocks, now)
        last = self._sent.peek(call.points[known_blocks]) if known_blocks else None
        return self._expected_read(call, known_blocks, scale, reached, last, now)

    def expect_on_paper(self, call: SentCall, expected: ExpectedRead, now: float) -> ExpectedRead:
        """Predict the read of a prompt beside this one, had all calls been sent as on paper."""
        known_blocks = expected.same
        reached = self._longest_at_breakpoints(call, known_blocks, now, self._paper)
        return self._expected_read(call, known_blocks, expected.scale, reached, None, now)

    def _expected_read(
        self,
        call: SentCall,
        known_blocks: int,
        scale: TokenScale,
        reached: tuple[_Reach, _Reach, int],
        last: float | None,
        now: float,
    ) -> ExpectedRead:
        surely, longest, stored = reached
        since = longest.entry.used if longest.size else last
        reaches = surely.size, longest.size, stored
        return ExpectedRead(
            **dict(zip(_REACHES, _readable(call.regime, scale, reaches), strict=True)),
            known=scale.tokens_of(max(call.ends[known_blocks], stored)),
            same=known_blocks,
            hit=surely.at,
            idle=None if since is None else max(0.0, now - since),
            lives=longest.entry.lifetime if longest.size else None,
            calls=self._minute_calls(call.machine_key, now).calls if _is_routed(call) else 0,
            scale=scale,
            reaches=reaches,
            regime=call.regime if stored else None,
        )

    def record_call(
        self, call: SentCall, usage: Usage | None, now: float, paper: PaperCall | None = None
    ) -> None:
        """Remember a prompt that was answered.

        Args:
            now: Time at which it was sent, in seconds: lifetimes run from there.
            paper: The same call with all its marks; None where it would not have others.
        """
        if _is_routed(call):
            way = call.machine_key
            self._routes.put(way, self._minute_calls(way, now).with_call())
        points, end = call.points, call.repeatable_blocks
        known_blocks, scale = self._known_prefix(call)
        self._recorded += 1
        scale = scale.with_total(usage.prompt_tokens) if usage is not None else scale
        if stores_at_breakpoints(call.regime) and not has_stored_nothing(call.regime, usage):
            self._update_entries(call, known_blocks, scale, now, self._entries)
        if paper is not None and not has_stored_nothing(call.regime, paper.usage):
            self._update_entries(paper.sent, known_blocks, scale, now, self._paper)
        if usage is not None and end:
            self._counted.put(points[end], scale.tokens_of(call.ends[end]))
        noted = known_blocks if self._is_brief and call.regime.takes_marks else 0
        self._record_sent(points[:noted:-1], now)
        if call.regime.name == WHOLE_PROMPTS:
            self._texts.keep_units(call, known_blocks, now)
        if not call.regime.takes_marks:
            self._texts.record_call(call, now)

    def _record_sent(self, points: Sequence[int], now: float) -> None:
        """Note when prefixes were sent, the longest first; those noted already may be later."""
        before = self._sent.put_all(points, now)
        if max(filter(None, before), default=now) > now:
            for point, used in zip(points, before, strict=True):
                if used and used > now:
                    self._sent.put(point, used)

    def _known_prefix(self, call: SentCall) -> tuple[int, TokenScale]:
        """Blocks that were sent before, and its tokens; once, until a call is recorded."""
        state = (self, self._recorded)
        memo = call.__dict__.get("known_prefix")
        if memo is None or memo[0] != state:
            times = enumerate(map(self._sent.peek, call.points[:0:-1]))
            count = next((len(call.blocks) - skip for skip, time in times if time is not None), 0)
            memo = call.__dict__["known_prefix"] = state, (count, self._token_scale(call, count))
        prefix: tuple[int, TokenScale] = memo[1]
        return prefix

    def _token_scale(self, call: SentCall, known_blocks: int) -> TokenScale:
        """Number of tokens its bytes are, by the longest prefix that was a whole prompt once."""
        points = call.points[known_blocks:0:-1]
        places = zip(points, call.ends[known_blocks:0:-1], strict=True)
        # A long prompt has many, so the loop is the interpreter's own.
        point, end = next(compress(places, map(self._counted.peek, points)), (0, 0))
        return call.scale(end, self._counted.peek(point) or 0)

    def _longest_anywhere(
        self, call: SentCall, known_blocks: int, now: float
    ) -> tuple[_Reach, _Reach, int]:
        """The longest prefix seen, for sure and ever; a prefix outlives longer ones."""
        if call.regime.needs_key and CACHE_KEY_FIELDS.isdisjoint(call.early):
            return _NOWHERE, _NOWHERE, 0
        life = lifetime_s(call.regime, "")
        places = (
            (call.ends[place], used_at)
            for place in range(known_blocks, 0, -1)
            if (used_at := self._sent.peek(call.points[place])) is not None
        )
        partial = self._texts.shared_starts(call, known_blocks)
        times = chain(((call.ends[known_blocks] + size, used) for size, used in partial), places)
        reaches = _longest_live((_Reach(size, EntryLife(used, life)) for size, used in times), now)
        return (*reaches, reaches[-1].size)

    def _longest_at_breakpoints(
        self, call: SentCall, known_blocks: int, now: float, stored: _EntryIndex
    ) -> tuple[_Reach, _Reach, int]:
        """The longest entry where this call looks, for sure and ever; and anywhere."""
        places = [place for place in lookup_places(call) if place <= known_blocks]
        entries = self._readable_entries(call, places, now, stored)
        reached: Iterable[_Reach] = (_Reach(call.ends[end], entry, end) for end, entry in entries)
        if call.regime.name == WHOLE_PROMPTS:
            units = self._texts.units(call, known_blocks)
            ends = (_Reach(call.ends[unit.at] + unit.size, unit.life, unit.at) for unit in units)
            reached = sorted(chain(reached, ends), key=lambda reach: reach.size, reverse=True)
        reaches = _longest_live(reached, now)
        every = self._readable_entries(call, range(known_blocks, 0, -1), now, stored)
        last, _ = next(every, (0, None))
        return (*reaches, max(call.ends[last], reaches[-1].size))

    def _readable_entries(
        self, call: SentCall, places: Sequence[int], now: float, entries: _EntryIndex
    ) -> Iterator[tuple[int, EntryLife]]:
        """The entries at the ends of so many blocks, each with its place."""
        points = call.entry_points
        entries_there = map(entries.peek, map(points.__getitem__, places))
        for place, stored in zip(places, entries_there, strict=True):
            if stored is None:
                continue
            entry = stored.readable_entry(explicit=call.explicit)
            if entry is not None and not self._unstored.is_unstored(points[place], now):
                yield place, entry

    def _live_places(
        self, call: SentCall, places: Sequence[int], now: float, entries: _EntryIndex
    ) -> Iterator[int]:
        for place, entry in self._readable_entries(call, places, now, entries):
            if entry.is_live(now):
                yield place

    def _update_entries(
        self, call: SentCall, known_blocks: int, scale: TokenScale, now: float, entries: _EntryIndex
    ) -> None:
        """Use the entries that are read, and write those beyond."""
        hit = next(self._live_places(call, lookup_places(call), now, entries), 0)
        used = used_places(call, hit, scale) if hit else ()
        for place in [*self._live_places(call, used, now, entries)]:
            point = call.entry_points[place]
            stored = entries.peek(point) or StoredEntries()
            entries.put(point, stored.after_read(now, explicit=call.explicit))
        behind = hit if call.regime.takes_marks else 0
        for place, ttl, writer in written_breakpoints(call, known_blocks, scale):
            if place > behind and scale.tokens_of(call.ends[place]) >= call.regime.least:
                point = call.entry_points[place]
                stored = entries.peek(point) or StoredEntries()
                entries.put(point, stored.after_write(call, ttl, writer, now))

    def _minute_calls(self, way: int, now: float) -> MinuteCalls:
        return (self._routes.peek(way) or MinuteCalls(now)).at(now)


def _is_routed(call: SentCall) -> bool:
    """True if calls that begin alike go to one machine as long as they are few."""
    return call.regime.name == "openai-interval"


def _longest_live(reaches: Iterable[_Reach], now: float) -> tuple[_Reach, _Reach]:
    """The longest that surely lives, and that ever was; longest come first."""
    longest = None
    for reach in reaches:
        longest = longest or reach
        if reach.entry.is_live(now):
            return reach, longest
    return _NOWHERE, longest or _NOWHERE
