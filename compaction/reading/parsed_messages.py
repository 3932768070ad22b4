"""Messages read once: a conversation sends most of its own again."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from compaction.reading.bounded_cache import Remembered
from compaction.reading.harness_results import framed, voiced
from compaction.reading.message import Count, Message
from compaction.reading.message_parser import read
from compaction.reading.token_estimate import estimate

#: What a message takes beside its JSON, which it holds a second time as text; and what a pair does.
_BESIDE: Final = 800
_PAIR: Final = 1_200

_Pair = tuple[Message, Message]


class Readings:
    """What was read of messages lately; one thread at a time may use it.

    A message is known by all its bytes, so what is said of it is never another's; nor does anybody
    learn from the time it takes what others sent.

    Args:
        most: Messages remembered.
        heaviest: Bytes that they may take.
    """

    def __init__(self, most: int = 50_000, heaviest: int = 128 << 20) -> None:
        self._known: Remembered[tuple[bytes, bytes, Count], Message] = Remembered(most, heaviest)
        self._pairs: Remembered[tuple[bytes, bytes, bytes, int], tuple[_Pair | None]] = Remembered(
            most, heaviest // 4
        )

    def __len__(self) -> int:
        return len(self._known)

    def messages(
        self, raws: Sequence[bytes], count: Count = estimate, scope: bytes = b""
    ) -> tuple[Message, ...]:
        """The messages with this JSON, in order, each with the voice it has there.

        Args:
            raws: Each message as JSON.
            count: How tokens are counted.
            scope: Whose they are.

        Raises:
            Unfoldable: If one cannot be read.
        """
        known = self._known.get
        found = [known((scope, raw, count)) or self._read(scope, raw, count) for raw in raws]
        return voiced(found, partial(self._framed, scope))

    def _read(self, scope: bytes, raw: bytes, count: Count) -> Message:
        found = read(raw, count)
        self._known.put((scope, raw, count), found, 2 * len(raw) + _BESIDE)
        return found

    def _framed(self, scope: bytes, said: Message, told: Message) -> _Pair | None:
        key = scope, said.digest, told.digest, said.tokens
        known = self._pairs.get(key)
        if known is None:
            known = (framed(said, told),)
            self._pairs.put(key, known, 2 * (len(said.raw) + len(told.raw)) + _PAIR)
        return known[0]
