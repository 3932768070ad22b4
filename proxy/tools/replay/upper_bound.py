"""About the most that a cache which keeps whole units alone could have read, whatever the order.

Such a cache keeps what a call asked, all of that with its answer, and what two calls asked alike.
Each can be read once it is built, some time after the answer that shows it began or ended. So a
call reads what one call held of it only where that call, all of it, is a part of it: then nothing
varied since. Otherwise it reads what two earlier calls asked, not one alone, and no answer that
only one of them went on from.

Pieces are lines and stretches of a few tokens, as the ceiling's are, so it is exact to a few. Of
very long recordings it is less: of pieces, and of the ends of conversations with what stood before
them, some 400,000 each are remembered, and what was forgotten counts as never sent.

Source: DeepSeek, context caching guide (2026-11): common prefixes are units, and are detected.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import takewhile
from typing import Final, NamedTuple

from proxy.caches.port import CachedPrompt, Served
from proxy.records.lru_cache import LruCache
from proxy.tools.replay.cache_limits import PieceTimes
from proxy.tools.replay.prompt_starts import PromptStarts
from proxy.tools.replay.prompt_units import PromptPiece, PromptPieces, PromptUnits

#: Different openings kept for one end of a conversation; beyond, any opening counts as one.
_OPENINGS: Final = 16
_ANY: Final[frozenset[bytes]] = frozenset()


class _EndedCall(NamedTuple):
    """A call that ended somewhere: what stood before its conversation, and since when."""

    heads: frozenset[bytes]
    at: float


class UpperBoundCache:
    """A cache, as ``proxy.caches.port`` has them, for which the order of what is sent is nothing.

    Args:
        units: Takes prompts apart.
        build: Seconds until what is kept can be read.
        room: Pieces of tools and system texts kept for the ends of conversations, of some 100
            bytes each.
    """

    def __init__(self, units: PromptUnits, build: float, room: int = 400_000) -> None:
        self._units = units
        self._build = build
        self._asked = PieceTimes()
        self._asked_twice = PieceTimes()
        self._answered = PieceTimes()
        self._openings = PromptStarts()
        self._ended: LruCache[bytes, tuple[_EndedCall, ...]] = LruCache(room, _pieces_in_memory)

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Read what some order would have let be read; not in steps."""
        until = now - self._build
        taken = self._units.split(prompt)
        kept = [self._asked_twice]
        if self._goes_on(taken, until):
            kept = [self._asked, self._answered]
        heads = [piece for piece in taken.heads if _is_kept(piece, kept, until)]
        links = list(takewhile(lambda link: _is_kept(link, kept, until), taken.links))
        read = sum(piece.tokens for piece in self._openings.longest_shared(heads, links))
        return Served(read=read, fresh=prompt.tokens - read)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Keep what is asked, and what an earlier call asked alike."""
        taken = self._units.split(prompt)
        pieces = {piece.digest: piece for piece in (*taken.heads, *taken.links)}.values()
        again = [piece for piece in pieces if self._asked.last_sent_at(piece) is not None]
        self._asked_twice.keep(again, now)
        self._asked.keep(pieces, now)
        self._end(taken, now)

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Keep all of it with the answer."""
        if generated:
            taken = self._units.split(prompt, generated)
            self._answered.keep(taken.links, now)
            self._end(taken, now)

    def _end(self, taken: PromptPieces, now: float) -> None:
        """Remember that a call ended here; its last tokens may stand in a piece of their own."""
        self._openings.note(taken.heads, taken.links)
        heads = frozenset(piece.digest for piece in taken.heads)
        for link in taken.links[-2:]:
            before = self._ended.peek(link.digest) or ()
            if len(before) > _OPENINGS or any(each.heads == heads for each in before):
                continue
            found = _EndedCall(heads if len(before) < _OPENINGS else _ANY, now)
            self._ended.put(link.digest, (*before, found))

    def _goes_on(self, taken: PromptPieces, until: float) -> bool:
        """True if an earlier call is a part of this one, but perhaps for its last few tokens."""
        heads: AbstractSet[bytes] = {piece.digest for piece in taken.heads}
        return any(one.at <= until and one.heads <= heads for one in self._ends(taken))

    def _ends(self, taken: PromptPieces) -> Iterator[_EndedCall]:
        for link in taken.links:
            yield from self._ended.peek(link.digest) or ()


def _pieces_in_memory(ended: tuple[_EndedCall, ...]) -> int:
    return sum(len(each.heads) + 1 for each in ended)


def _is_kept(piece: PromptPiece, kept: list[PieceTimes], until: float) -> bool:
    """True if the piece was seen by then."""
    return any((at := seen.last_sent_at(piece)) is not None and at <= until for seen in kept)
