"""What a cache should have known: every prefix that was sent, and what was stored of it.

::

    expected(sent) ── before it is sent ──▶ tokens that should be read, and why not more
    note(sent)     ── once it is answered ─▶ its prefixes are known, its marks are stored

Two kinds of cache are told apart. One stores prefixes that end at breakpoints and finds them only
from breakpoints; the other reads the longest prefix it has seen, wherever that ends.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain, takewhile
from math import inf
from typing import Final, NamedTuple, TypeVar

import msgspec

from proxy.prefix.lookups import (
    by_breakpoints,
    keys,
    lives,
    longest,
    looked_up,
    readable,
    route,
    stored_nothing,
    used,
    writes,
)
from proxy.prefix.sent import Lines, Scale, Sent, parted
from slo.usage import Usage

#: After how many lifetimes an entry is surely gone; providers promise a least, not a most.
_GONE: Final = 2.0
_MINUTE: Final = 60.0


_Kept = TypeVar("_Kept")


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What should be read of a prompt; all but times in its tokens.

    They ascend: what surely is there, what may be there still, what was stored where this call
    looks, what was stored anywhere in it, what was sent before.

    Attributes:
        tokens: What should be read.
        maybe: What may be read, if entries outlive what their provider promises.
        found: What could be read if nothing ever died.
        stored: What could be read if, besides, every block were looked up.
        known: What was sent before, stored or not.
        idle: Seconds since the longest entry found was used; since the longest prefix known was
            sent, where none was found; None for neither.
        lives: Seconds the longest entry found lives after its last use; None for none.
        calls: Calls that took the same way to the cache in the last minute.
        scale: How many tokens the prompt's bytes were taken to be.
    """

    tokens: int = 0
    maybe: int = 0
    found: int = 0
    stored: int = 0
    known: int = 0
    idle: float | None = None
    lives: float | None = None
    calls: int = 0
    scale: Scale = Scale()

    def scaled(self, total: int) -> "Expected":
        """The same once the prompt's tokens are known."""
        scale = self.scale.of(total)
        if scale == self.scale:
            return self
        changed = {
            name: _moved(getattr(self, name), self.scale, scale)
            for name in ("tokens", "maybe", "found", "stored", "known")
        }
        return msgspec.structs.replace(self, **changed, scale=scale)


def _moved(tokens: int, before: Scale, after: Scale) -> int:
    """Tokens as another scale has them."""
    if tokens <= after.counted:
        return tokens
    rest = before.total - after.counted
    return after.counted + (
        (tokens - after.counted) * (after.total - after.counted) // rest if rest else 0
    )


class _Entry(NamedTuple):
    used: float
    lives: float

    def surely(self, now: float) -> bool:
        return now - self.used <= self.lives

    def perhaps(self, now: float) -> bool:
        return now - self.used <= _GONE * self.lives


class _Opening(NamedTuple):
    used: float
    lines: Lines


class _Reach(NamedTuple):
    """Bytes of a prefix that can be read, and the entry that says so."""

    size: int
    entry: _Entry


_NOWHERE: Final = _Reach(0, _Entry(-inf, 0.0))


class Chains:
    """Prefixes sent and stored, of all calls of this process; the least recently used go first.

    By default 25 MB, and up to 6 MB for the lines of texts: 200 bytes for a prefix, 250 more where
    it was stored.

    Args:
        most: Prefixes kept. A tenth as many may have been stored, a twentieth are ways to a cache,
            a hundredth are texts whose lines are kept.
    """

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        self._sent: OrderedDict[bytes, tuple[float, int]] = OrderedDict()
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._openings: OrderedDict[bytes, _Opening] = OrderedDict()
        self._routes: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        """Everything kept, of all kinds."""
        return len(self._sent) + len(self._entries) + len(self._openings) + len(self._routes)

    def expected(self, sent: Sent, now: float) -> Expected:
        """What should be read of a prompt that is sent now."""
        known = self._known(sent)
        if by_breakpoints(sent.regime):
            reaches = self._at_breakpoints(sent, known, now)
        else:
            reaches = self._anywhere(sent, known, now)
        surely, perhaps, found, stored = reaches
        last = self._sent[sent.points[known]][0] if known else None
        since = found.entry.used if found.size else last
        scale = self._scale(sent, known)
        sizes = (surely.size, perhaps.size, found.size, stored)
        tokens = [readable(sent, scale.tokens_of(size), scale.total) for size in sizes]
        return Expected(
            tokens=tokens[0],
            maybe=tokens[1],
            found=tokens[2],
            stored=tokens[3],
            known=scale.tokens_of(max(sent.ends[known], stored)),
            idle=None if since is None else max(0.0, now - since),
            lives=found.entry.lives if found.size else None,
            calls=self._calls(sent, now),
            scale=scale,
        )

    def note(self, sent: Sent, usage: Usage | None, now: float) -> None:
        """Remember a prompt that was answered.

        Args:
            sent: The prompt.
            usage: What the provider says of it; None where it says nothing.
            now: When it was sent: lifetimes run from there.
        """
        self._count(sent, now)
        scale = self._scale(sent, self._known(sent))
        if by_breakpoints(sent.regime) and not stored_nothing(sent.regime, usage):
            self._store(sent, usage, now)
        for at in longest(sent):
            point = sent.points[at]
            used, counted = self._sent.get(point, (now, 0))
            if usage is not None and at == sent.kept:
                counted = scale.of(usage.prompt).tokens_of(sent.ends[at])
            self._sent[point] = max(used, now), counted
            self._sent.move_to_end(point)
        for at, lines in sent.lines.items():
            _put(self._openings, sent.points[at], _Opening(now, lines), self._most // 100)
        while len(self._sent) > self._most:
            self._sent.popitem(last=False)

    def _known(self, sent: Sent) -> int:
        """How many blocks of it were sent before."""
        return next((at for at in longest(sent) if sent.points[at] in self._sent), 0)

    def _scale(self, sent: Sent, known: int) -> Scale:
        """How many tokens its bytes are, by the longest prefix that was a whole prompt once."""
        for at in range(known, 0, -1):
            seen = self._sent.get(sent.points[at])
            if seen is not None and seen[1]:
                return sent.scale(sent.ends[at], seen[1])
        return sent.scale()

    def _anywhere(self, sent: Sent, known: int, now: float) -> tuple[_Reach, _Reach, _Reach, int]:
        """The longest prefix seen, for sure, perhaps and ever; a prefix outlives longer ones."""
        life = lives(sent.regime, "")
        places = (
            (sent.ends[at], seen[0])
            for at in range(known, 0, -1)
            if (seen := self._sent.get(sent.points[at])) is not None
        )
        times = chain(self._begun(sent, known), places)
        reaches = _lived((_Reach(size, _Entry(used, life)) for size, used in times), now)
        return (*reaches, reaches[-1].size)

    def _begun(self, sent: Sent, known: int) -> list[tuple[int, float]]:
        """Where the next block begins like one that stood in its place: bytes, and when."""
        opening = self._openings.get(sent.points[known])
        lines = sent.lines.get(known)
        if opening is None or lines is None:
            return []
        both = parted(lines.digests), parted(opening.lines.digests)
        pairs = zip(lines.sizes, *both, strict=False)
        same = sum(size for size, _, _ in takewhile(lambda pair: pair[1] == pair[2], pairs))
        share = same * sent.blocks[known].size // max(1, lines.size)
        return [(sent.ends[known] + share, opening.used)] if share else []

    def _at_breakpoints(
        self, sent: Sent, known: int, now: float
    ) -> tuple[_Reach, _Reach, _Reach, int]:
        """The longest entry where this call looks, for sure, perhaps and ever; and anywhere."""
        places = sorted(set(looked_up(sent)), reverse=True)
        entries = ((at, self._entry(sent, at)) for at in places if at <= known)
        reaches = _lived(
            (_Reach(sent.ends[at], entry) for at, entry in entries if entry is not None), now
        )
        there = (at for at in range(known, 0, -1) if self._entry(sent, at) is not None)
        return (*reaches, sent.ends[next(there, 0)])

    def _entry(self, sent: Sent, at: int) -> _Entry | None:
        """The entry at the end of a block; of two, the one that lives longer."""
        found = None
        for key in keys(sent, at):
            entry = self._entries.get(key)
            if entry is not None and (found is None or sum(entry) > sum(found)):
                found = entry
        return found

    def _store(self, sent: Sent, usage: Usage | None, now: float) -> None:
        """Use the entries that are read, and write those beyond."""
        places = sorted(set(looked_up(sent)), reverse=True)
        known = self._known(sent)
        live = [at for at in places if any(self._live(key, now) for key in keys(sent, at))]
        hit = live[0] if live else 0
        for at in used(sent, live):
            for key in keys(sent, at):
                if self._live(key, now):
                    entry = self._entries[key]
                    self._put(key, entry._replace(used=max(entry.used, now)))
        scale = self._scale(sent, known)
        scale = scale.of(usage.prompt) if usage is not None else scale
        for at, ttl, by in writes(sent, known):
            if at > hit and scale.tokens_of(sent.ends[at]) >= sent.regime.least:
                self._put(sent.points[at] + by, _Entry(now, lives(sent.regime, ttl)))

    def _live(self, key: bytes, now: float) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.surely(now)

    def _put(self, key: bytes, entry: _Entry) -> None:
        _put(self._entries, key, entry, self._most // 10)

    def _count(self, sent: Sent, now: float) -> None:
        way = route(sent)
        since, calls = self._routes.get(way, (now, 0))
        if now - since >= _MINUTE:
            since, calls = now, 0
        _put(self._routes, way, (since, calls + 1), self._most // 20)

    def _calls(self, sent: Sent, now: float) -> int:
        since, calls = self._routes.get(route(sent), (now, 0))
        return calls if now - since < _MINUTE else 0


def _put(kept: OrderedDict[bytes, _Kept], key: bytes, value: _Kept, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def _lived(reaches: Iterable[_Reach], now: float) -> tuple[_Reach, _Reach, _Reach]:
    """The longest that surely lives, that perhaps does, and that ever was; longest come first."""
    perhaps = longest = None
    for reach in reaches:
        longest = longest or reach
        if perhaps is None and reach.entry.perhaps(now):
            perhaps = reach
        if reach.entry.surely(now):
            return reach, perhaps or reach, longest
    return _NOWHERE, perhaps or _NOWHERE, longest or _NOWHERE
