"""A cache of parsed messages: each call of a conversation sends most of its messages again."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from compaction.reading.bounded_cache import BoundedCache
from compaction.reading.harness_results import assign_voices, pair_call_with_result
from compaction.reading.message import Count, ParsedMessage
from compaction.reading.message_parser import parse_message
from compaction.reading.token_estimate import estimate_tokens

#: Overhead in bytes of a message in addition to its JSON, which is held a second time as text; and
#: bytes of a pair.
_MESSAGE_OVERHEAD_BYTES: Final = 800
_PAIR_BYTES: Final = 1_200

_Pair = tuple[ParsedMessage, ParsedMessage]


class ParsedMessageCache:
    """A cache of parsed messages; one thread at a time may use it.

    A message is known by all its bytes, so what is said of it is never another's; nor does anybody
    learn from the time it takes what others sent.

    Args:
        max_entries: Messages remembered.
        max_bytes: Bytes that they may take.
    """

    def __init__(self, max_entries: int = 50_000, max_bytes: int = 32 << 20) -> None:
        self._known: BoundedCache[tuple[bytes, bytes, Count], ParsedMessage] = BoundedCache(
            max_entries, max_bytes
        )
        self._pairs: BoundedCache[tuple[bytes, bytes, bytes, int], tuple[_Pair | None]] = (
            BoundedCache(max_entries, max_bytes // 4)
        )

    def __len__(self) -> int:
        return len(self._known)

    def messages(
        self, raws: Sequence[bytes], count: Count = estimate_tokens, scope: bytes = b""
    ) -> tuple[ParsedMessage, ...]:
        """The messages with this JSON, in order, each with the voice it has there.

        Args:
            raws: Each message as JSON.
            count: Returns the number of tokens in a text.
            scope: Whose they are.

        Raises:
            CannotCompactError: If one cannot be read.
        """
        lookup = self._known.get
        messages = [
            lookup((scope, raw, count)) or self._cached_message(scope, raw, count) for raw in raws
        ]
        return assign_voices(messages, partial(self._cached_pair, scope))

    def _cached_message(self, scope: bytes, raw: bytes, count: Count) -> ParsedMessage:
        message = parse_message(raw, count)
        self._known.store((scope, raw, count), message, 2 * len(raw) + _MESSAGE_OVERHEAD_BYTES)
        return message

    def _cached_pair(
        self, scope: bytes, caller: ParsedMessage, answer: ParsedMessage
    ) -> _Pair | None:
        key = scope, caller.digest, answer.digest, caller.tokens
        entry = self._pairs.get(key)
        if entry is None:
            entry = (pair_call_with_result(caller, answer),)
            self._pairs.store(key, entry, 2 * (len(caller.raw) + len(answer.raw)) + _PAIR_BYTES)
        return entry[0]
