"""Two forms of what was converted lately: a conversation that grows pays for what is new in it."""

from collections.abc import Callable
from typing import Final, NamedTuple

#: Bytes that an entry takes besides its texts, roughly.
_ENTRY: Final = 512


class _Half(NamedTuple):
    there: dict[bytes, bytes]
    back: dict[bytes, bytes]


class ConversionCache:
    """Converts pieces one way, and what it made of them the other way.

    What was not used while half the room filled up is forgotten. Any thread may use it.

    Args:
        there: Converts a piece; the same for equal pieces.
        back: Converts what that gave, changed or not, into the piece again.
        room: Bytes kept at most; a piece of an eighth of that is not kept.
    """

    def __init__(
        self, there: Callable[[bytes], bytes], back: Callable[[bytes], bytes], room: int
    ) -> None:
        self._there = there
        self._back = back
        self._half = max(1, room // 2)
        self._taken = 0
        self._new, self._old = _Half({}, {}), _Half({}, {})

    @property
    def size(self) -> int:
        """Bytes of all texts kept, at most."""
        pairs = (pair for half in (self._new, self._old) for pair in half.there.items())
        return sum(len(came) + len(made) for came, made in pairs)

    def convert(self, came: bytes) -> bytes:
        """The other form of a piece.

        Raises:
            Unplannable: If it has none.
        """
        found = self._new.there.get(came)
        if found is None:
            found = self._old.there.get(came) or self._there(came)
            self._keep(came, found)
        return found

    def restore(self, made: bytes) -> bytes:
        """The piece that another form was made of, with what was changed in it since."""
        return self._new.back.get(made) or self._old.back.get(made) or self._back(made)

    def _keep(self, came: bytes, made: bytes) -> None:
        weight = len(came) + len(made) + _ENTRY
        if weight * 4 > self._half:
            return
        if self._taken + weight > self._half:
            self._old, self._new, self._taken = self._new, _Half({}, {}), 0
        self._taken += weight
        new = self._new
        new.there[came] = made
        new.back[made] = came
