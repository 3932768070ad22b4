"""The most that any order and any mark could have had read: a cache that never forgets.

Of each call, what was sent already counts as read: each tool, each line of a system text, and the
conversation as far as one went before in the same words; all but one token of the prompt, no less
than the cache's minimum, in its steps. What is read is the beginning of one earlier call, so no
more counts than one call held, while the different openings are few enough to be compared. Where
nothing that is stored can end in what the assistant said, what is read ends before that too: no
order changes which message follows which. Where whole units alone are kept, ``UpperBoundCache``
says how much of this can be read. Where writes are paid, each token that is ever read is written
once, at the cheapest lifetime.
"""

from itertools import takewhile
from typing import Final

from proxy.caches.port import CachedPrompt
from proxy.tools.replay.cache_limits import PieceTimes
from proxy.tools.replay.line_limits import CacheBounds
from proxy.tools.replay.prompt_starts import PromptStarts
from proxy.tools.replay.prompt_units import PromptPiece, PromptPieces, PromptUnits

_ONCE: Final = 0.0
_AGAIN: Final = 1.0


class IdealCache:
    """Knows every unit that was sent; bounded as ``PieceTimes`` is."""

    def __init__(self, limits: CacheBounds, units: PromptUnits) -> None:
        self._limits = limits
        self._units = units
        self._seen = PieceTimes()
        self._openings = PromptStarts()

    def split(self, prompt: CachedPrompt, generated: tuple[int, ...]) -> PromptPieces:
        """The prompt taken apart, and its answer where that is kept."""
        return self._units.split(prompt, generated if self._limits.answers else ())

    def known_pieces(self, taken: PromptPieces) -> list[PromptPiece]:
        """The pieces that were sent before."""
        when = self._seen.last_sent_at
        heads = [piece for piece in taken.heads if when(piece) is not None]
        links = list(takewhile(lambda link: when(link) is not None, taken.links))
        while links and links[-1].spoken and not self._limits.spoken:
            links.pop()
        return self._openings.longest_shared(heads, links)

    def read(self, known: int, total: int, as_sent: int) -> int:
        """Tokens that could have been read of a call, and never less than were.

        Args:
            known: Tokens of it that were sent before.
            total: Tokens of it.
            as_sent: Tokens of it that were read when it was sent unmodified.
        """
        limits = self._limits
        most = max(0, min(known, total - 1))
        most -= most % limits.step
        if not limits.caches or most < limits.least:
            most = 0
        return max(most, as_sent)

    def written_tokens(self, known: list[PromptPiece]) -> int:
        """Tokens that had to be written for these to be read, and were not counted yet."""
        new = {piece for piece in known if self._seen.last_sent_at(piece) == _ONCE}
        self._seen.note(new, _AGAIN)
        return sum(piece.tokens for piece in new)

    def note(self, taken: PromptPieces) -> None:
        """It was sent, and answered."""
        self._openings.note(taken.heads, taken.links)
        self._seen.keep(taken.heads, _ONCE)
        self._seen.keep(taken.links, _ONCE)
