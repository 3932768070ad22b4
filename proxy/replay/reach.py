"""About the most that a cache which keeps whole units alone could have read, whatever the order.

Such a cache keeps how each call ended, and what two calls have in common; both take their time to
be built. So a call reads all that is known of it only where an earlier call, all of it, is a part
of it: then nothing varied since. Otherwise it reads what two earlier calls held, not one alone.
Pieces are lines and stretches of a few tokens, as the ceiling's are, so it is exact to a few. Of
very long recordings it is less: of pieces, and of the ends of conversations with what stood before
them, some 400,000 each are remembered, and what was forgotten counts as never sent. A plan may then
read more than it says.

Source: DeepSeek, context caching guide (2026-11): common prefixes are units, and are detected.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from proxy.prefix.prompts.recent import Recent
from proxy.replay.bounds import Bounds
from proxy.replay.ceiling import Taken
from proxy.replay.seen import Seen
from proxy.replay.units import Piece

#: Different openings kept for one end of a conversation; beyond, any opening counts as one.
_OPENINGS: Final = 16
_ANY: Final[frozenset[bytes]] = frozenset()


class _Ended(NamedTuple):
    """A call that ended somewhere: what stood before its conversation, and when it was sent."""

    heads: frozenset[bytes]
    at: float


class Reach:
    """Knows when each piece was sent first, and when again, and how each call ended.

    Args:
        limits: The cache's.
        room: Pieces of tools and system texts kept for the ends of conversations, of some 100
            bytes each.
    """

    def __init__(self, limits: Bounds, room: int = 400_000) -> None:
        self._build = limits.build
        self._once = Seen()
        self._twice = Seen()
        self._ended: Recent[bytes, tuple[_Ended, ...]] = Recent(room, _weight)

    def known(self, taken: Taken, known: Sequence[Piece], now: float) -> int:
        """Tokens of a call that may be read.

        Args:
            taken: The call.
            known: Its pieces that were sent before.
            now: When it is made, in seconds.
        """
        until = now - self._build
        if self._goes_on(taken, until):
            return _tokens(self._once, known, until)
        return _tokens(self._twice, known, until)

    def note(self, taken: Taken, now: float) -> None:
        """It was sent at ``now``, and answered."""
        pieces = {piece.digest: piece for piece in (*taken.heads, *taken.links)}.values()
        self._twice.keep([piece for piece in pieces if self._once.when(piece) is not None], now)
        self._once.keep(pieces, now)
        heads = frozenset(piece.digest for piece in taken.heads)
        for link in taken.links[-2:]:
            before = self._ended.peek(link.digest) or ()
            if len(before) > _OPENINGS or any(each.heads == heads for each in before):
                continue
            found = _Ended(heads if len(before) < _OPENINGS else _ANY, now)
            self._ended.put(link.digest, (*before, found))

    def _goes_on(self, taken: Taken, until: float) -> bool:
        """Whether an earlier call is a part of this one, but perhaps for its last few tokens."""
        heads: AbstractSet[bytes] = {piece.digest for piece in taken.heads}
        ended = (self._ended.peek(link.digest) or () for link in taken.links)
        return any(one.at <= until and one.heads <= heads for each in ended for one in each)


def _weight(ended: tuple[_Ended, ...]) -> int:
    return sum(len(each.heads) + 1 for each in ended)


def _tokens(seen: Seen, pieces: Sequence[Piece], until: float) -> int:
    """Tokens of the pieces that were seen by then."""
    found = [
        piece.tokens for piece in pieces if (at := seen.when(piece)) is not None and at <= until
    ]
    return sum(found)
