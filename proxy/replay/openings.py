"""What single calls held of tools, system texts and conversation, while that can be compared."""

from collections.abc import Sequence

from proxy.replay.units import Piece


class Openings:
    """Every different opening that was sent, and how far each conversation went under it.

    What a cache reads is the beginning of one earlier call, whatever the order.

    Args:
        most: Different openings compared; beyond, nothing is told any more.
        room: Beginnings of conversations kept, of some 300 bytes; the same beyond.
    """

    def __init__(self, most: int = 500, room: int = 100_000) -> None:
        self._most = most
        self._room = room
        self._numbers: dict[frozenset[Piece], int] = {}
        self._under: dict[bytes, set[int]] = {}
        self._is_open = True

    def shared(self, heads: Sequence[Piece], links: Sequence[Piece]) -> list[Piece]:
        """The most that one earlier call held of these; all of them where that is not known."""
        if not self._is_open:
            return [*heads, *links]
        found: list[Piece] = []
        most = 0
        for opening, number in self._numbers.items():
            held = [piece for piece in heads if piece in opening]
            held += [link for link in links if number in self._under.get(link.digest, ())]
            tokens = sum(piece.tokens for piece in held)
            if tokens > most:
                found, most = held, tokens
        return found

    def note(self, heads: Sequence[Piece], links: Sequence[Piece]) -> None:
        """A call held these."""
        if not self._is_open:
            return
        number = self._numbers.setdefault(frozenset(heads), len(self._numbers))
        for link in links:
            self._under.setdefault(link.digest, set()).add(number)
        if len(self._numbers) > self._most or len(self._under) > self._room:
            self._is_open = False
            self._numbers.clear()
            self._under.clear()
