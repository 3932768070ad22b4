"""Tools, system texts and conversation starts of single calls, kept while they can be compared."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from proxy.tools.replay.prompt_units import PromptPiece

_NONE: Final[AbstractSet[int]] = frozenset()


class PromptStarts:
    """Every different opening that was sent, and how far each conversation went under it.

    What a cache reads is the beginning of one earlier call, whatever the order.

    Args:
        most: Different openings compared; beyond, nothing is told any more.
        room: Pieces kept, of some 300 bytes; the same beyond.
    """

    def __init__(self, most: int = 500, room: int = 100_000) -> None:
        self._most = most
        self._room = room
        self._numbers: dict[frozenset[bytes], int] = {}
        self._under: dict[bytes, set[int]] = {}
        self._is_open = True

    def longest_shared(
        self, heads: Sequence[PromptPiece], links: Sequence[PromptPiece]
    ) -> list[PromptPiece]:
        """The most that one earlier call held of these; all of them where that is not known."""
        pieces = [*heads, *links]
        if not self._is_open:
            return pieces
        under = [self._under.get(piece.digest, _NONE) for piece in pieces]
        held = [0] * len(self._numbers)
        for piece, numbers in zip(pieces, under, strict=True):
            # What all of them held says nothing of which held most.
            for number in numbers if len(numbers) < len(held) else ():
                held[number] += piece.tokens
        best = held.index(max(held)) if held else 0
        return [piece for piece, numbers in zip(pieces, under, strict=True) if best in numbers]

    def note(self, heads: Sequence[PromptPiece], links: Sequence[PromptPiece]) -> None:
        """A call held these."""
        if not self._is_open:
            return
        opening = frozenset(piece.digest for piece in heads)
        number = self._numbers.setdefault(opening, len(self._numbers))
        for piece in (*heads, *links):
            self._under.setdefault(piece.digest, set()).add(number)
        if len(self._numbers) > self._most or len(self._under) > self._room:
            self._is_open = False
            self._numbers.clear()
            self._under.clear()
