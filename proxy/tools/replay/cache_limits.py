"""Remembers the prompt pieces that were sent before, as many as fit."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from proxy.tools.replay.prompt_units import PromptPiece

#: Share that is forgotten at once.
_PART: Final = 16


class PieceTimes:
    """Time at which each piece was sent last; beyond ``most`` the longest unused are forgotten.

    Args:
        most: Pieces kept; each takes about 200 bytes.
    """

    def __init__(self, most: int = 400_000) -> None:
        self._most = most
        self._last: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._last)

    def last_sent_at(self, piece: PromptPiece) -> float | None:
        """The time the piece was last sent; None if never."""
        return self._last.get(piece.digest)

    def common(self, links: Iterable[PromptPiece]) -> tuple[int, float | None]:
        """Tokens of the longest beginning that was sent before, and when it was sent last."""
        tokens, last = 0, None
        for link in links:
            when = self._last.get(link.digest)
            if when is None:
                break
            tokens, last = tokens + link.tokens, when
        return tokens, last

    def note(self, pieces: Iterable[PromptPiece], now: float) -> None:
        """These were sent."""
        kept = self._last
        for piece in pieces:
            kept.pop(piece.digest, None)
            kept[piece.digest] = now
        self._forget()

    def keep(self, pieces: Iterable[PromptPiece], first: float) -> None:
        """These are still sent; one that never was before is noted at ``first``."""
        kept = self._last
        for piece in pieces:
            kept[piece.digest] = kept.pop(piece.digest, first)
        self._forget()

    def _forget(self) -> None:
        """Make more room than is needed: the way to the oldest leads past all that are gone."""
        over = len(self._last) - self._most
        if over > 0:
            for digest in list(islice(self._last, over + self._most // _PART)):
                del self._last[digest]
