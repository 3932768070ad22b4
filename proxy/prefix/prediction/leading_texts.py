"""The leading texts of calls: how far one begins as another did, and units that end within them.

A cache that reads any length reads a new text as far as it begins like an earlier one in its place.
One that keeps whole prompts (DeepSeek) keeps, besides, what two prompts have in common: such a unit
may end within a text.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from proxy.caches.entries import EntryLife
from proxy.prefix.prediction.lookups import written_life
from proxy.prefix.prediction.sent_call import DIGEST_BYTES, SentCall, TextLines
from proxy.records.lru_cache import LruCache

#: Templates told apart in one place, and units within its texts.
_MAX_OPENINGS: Final = 3
_MAX_UNITS: Final = 8
#: Bytes of a text and of each of its lines, and of a unit besides its digests.
_OPENING_BYTES: Final = 250
_LINE_BYTES: Final = 12
_UNIT_BYTES: Final = 250


class _Opening(NamedTuple):
    used: float
    lines: TextLines


class TextUnit(NamedTuple):
    """A unit that ends within a text.

    Attributes:
        at: Blocks before that text.
        size: Bytes of the text in it.
        life: Life of its entry.
    """

    at: int
    size: int
    life: EntryLife


class LeadingTexts:
    """The latest texts by place, and units within; a place is a prefix, as ``points`` has it.

    Attributes:
        indexes: All that is remembered.
    """

    def __init__(self) -> None:
        self._openings: LruCache[int, tuple[_Opening, ...]] = LruCache(weigh=_openings_bytes)
        self._units: LruCache[int, tuple[tuple[bytes, TextUnit], ...]] = LruCache(
            weigh=_units_bytes
        )
        self.indexes: Sequence[LruCache[int, Any]] = (self._openings, self._units)

    def record_call(self, sent: SentCall, now: float) -> None:
        """Remember the call's texts, and the latest of other templates in their places."""
        for at, lines in sent.lines.items():
            others = (
                each
                for each in self._openings.peek(sent.points[at]) or ()
                if shared_length(each.lines.digests, lines.digests) * 2 < len(lines.digests)
            )
            self._openings.put(sent.points[at], (_Opening(now, lines), *others)[:_MAX_OPENINGS])

    def shared_starts(self, sent: SentCall, at: int) -> list[tuple[int, float]]:
        """Bytes that a block's text shares with those in its place, most first, and their times."""
        starts = [
            (_shared_size(sent, at, each.lines), each.used) for each in self._latest(sent, at)
        ]
        return sorted((each for each in starts if each[0]), reverse=True)

    def keep_units(self, sent: SentCall, at: int, now: float) -> None:
        """Keep what a block's text shares with those in its place as units."""
        for opening in self._latest(sent, at):
            digests = sent.lines[at].digests
            shared = digests[: shared_length(digests, opening.lines.digests)]
            if not shared:
                continue
            units = dict(self._units.peek(sent.points[at]) or ())
            before = units.pop(shared, None)
            life = written_life(sent, "", before and before.life, now)
            units[shared] = TextUnit(at, _shared_size(sent, at, opening.lines), life)
            self._units.put(sent.points[at], tuple(units.items())[-_MAX_UNITS:])

    def units(self, sent: SentCall, known: int) -> Iterator[TextUnit]:
        """The units that the call begins with, in texts with at most so many blocks before them."""
        for at, lines in sent.lines.items():
            for digests, unit in (self._units.peek(sent.points[at]) or ()) if at <= known else ():
                if lines.digests.startswith(digests):
                    yield unit

    def _latest(self, sent: SentCall, at: int) -> tuple[_Opening, ...]:
        return (self._openings.peek(sent.points[at]) or ()) if at in sent.lines else ()


def shared_length(one: bytes, other: bytes) -> int:
    """Bytes of whole fingerprints that two rows of them begin with."""
    low, high = 0, min(len(one), len(other)) // DIGEST_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if one[: middle * DIGEST_BYTES] == other[: middle * DIGEST_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low * DIGEST_BYTES


def _shared_size(sent: SentCall, at: int, other: TextLines) -> int:
    """Bytes of a block that begin as another text in its place does, in whole lines."""
    lines = sent.lines[at]
    same = shared_length(lines.digests, other.digests) // DIGEST_BYTES
    return sum(lines.sizes[:same]) * sent.blocks[at].size // max(1, lines.size)


def _openings_bytes(openings: tuple[_Opening, ...]) -> int:
    return sum(_OPENING_BYTES + _LINE_BYTES * len(opening.lines.sizes) for opening in openings)


def _units_bytes(units: tuple[tuple[bytes, TextUnit], ...]) -> int:
    return sum(_UNIT_BYTES + len(digests) for digests, _ in units)
