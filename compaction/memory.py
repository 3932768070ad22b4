"""Caches between calls: parsed messages, text analyses, conversation states.

They save time alone: whatever is evicted is computed again, with the same result.
"""

from collections import OrderedDict
from typing import Final

from compaction.planner import CompactionState
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.reading.text_analysis_cache import TextAnalysisCache

#: Maximum conversations remembered, and maximum bytes of their states.
_MAX_CONVERSATIONS: Final = 4_096
_MAX_BYTES: Final = 16 * 2**20
#: Overhead in bytes of a dictionary's entry, in addition to its key and value.
_ENTRY_BYTES: Final = 160


class CompactionMemory:
    """Bounded; one thread at a time may use it.

    Args:
        conversations: Conversations remembered.
        max_bytes: Bytes of what is sent in place of messages that are remembered with them.
    """

    def __init__(
        self, conversations: int = _MAX_CONVERSATIONS, max_bytes: int = _MAX_BYTES
    ) -> None:
        self.parsed_messages = ParsedMessageCache()
        self.text_analyses = TextAnalysisCache()
        self._max_conversations = conversations
        self._max_bytes = max_bytes
        self._held = 0
        self._states: OrderedDict[bytes, CompactionState] = OrderedDict()

    def find(self, key: bytes) -> CompactionState | None:
        """The state of the conversation with that key; None where it is not known."""
        state = self._states.get(key)
        if state is not None:
            self._states.move_to_end(key)
        return state

    def keep(self, key: bytes, state: CompactionState) -> None:
        """Remembers a state; the least recently used are forgotten."""
        before = self._states.pop(key, None)
        if before is not None:
            self._held -= _state_bytes(before)
        self._states[key] = state
        self._held += _state_bytes(state)
        while len(self._states) > self._max_conversations or self._held > self._max_bytes:
            _, dropped = self._states.popitem(last=False)
            self._held -= _state_bytes(dropped)


def _state_bytes(state: CompactionState) -> int:
    """Bytes that a state holds, approximately."""
    tail = state.suffix
    replaced_bytes = sum(
        len(replacement.raw) + _ENTRY_BYTES for replacement in tail.replaced.values()
    )
    segments = sum(4 * len(part.segment.text) for part in state.parts)
    return 512 + replaced_bytes + _ENTRY_BYTES * len(tail.seen) + segments
