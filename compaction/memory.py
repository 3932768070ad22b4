"""The state of a conversation, and caches between calls: states, parsed messages, text analyses.

The caches save time alone: whatever is evicted is computed again, with the same result.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from compaction.compacted_part import CompactedPart, SegmentCache
from compaction.cost_model import (
    RETRY_GROWTH_FACTOR,
    CompactionDecision,
    CompactionReason,
    CostInputs,
)
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.reading.text_analysis_cache import TextAnalysisCache
from compaction.verbatim_suffix import VerbatimSuffix

#: Maximum conversations remembered, and maximum bytes of their states.
_MAX_CONVERSATIONS: Final = 4_096
_MAX_BYTES: Final = 16 * 2**20
#: Overhead in bytes of a dictionary's entry, in addition to its key and value.
_ENTRY_BYTES: Final = 160
#: Minimum estimated size of a segment, as a share of the region it replaces, until one is written.
_INITIAL_SEGMENT_SHARE: Final = 0.15


class CompactionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a conversation at a point.

    Attributes:
        calls: Points passed.
        calls_since: Points passed since the last compaction.
        parts: The parts compacted, in order.
        suffix: All after them.
        start: Tokens of the whole as it was sent right after the last compaction.
        sent: Tokens of the whole as it was sent at the last point.
        raw: The same, unmodified.
        bank: Savings by shortening, in tokens of uncached input.
        failed: Tokens of the part that was last tried in vain.
        shown: The first message that was new to the last point's call.
        cut_at: The point where results were cut last.
        share: The last segment's size as a share of what it was to replace.
        measured: Tokens of that; of twice as many the share is not known.
        decision: Decision made at the last point.
    """

    suffix: VerbatimSuffix
    calls: int = 0
    calls_since: int = 0
    parts: tuple[CompactedPart, ...] = ()
    start: int = 0
    sent: int = 0
    raw: int = 0
    bank: float = 0.0
    failed: int = 0
    shown: int = 0
    cut_at: int = 0
    share: float = _INITIAL_SEGMENT_SHARE
    measured: int = 0
    decision: CompactionDecision = CompactionDecision(
        is_due=False, reason=CompactionReason.NOTHING_TO_COMPACT, break_even=None
    )

    def with_segment(self, region: int, segment: int) -> "CompactionState":
        """The state once a segment of this size was tried for a region."""
        share = min(segment / max(1, region), 1.0)
        return msgspec.structs.replace(self, share=share, measured=region)

    def likely_segment(self, region: int) -> int:
        """Tokens of a region's segment, by the one that was tried last."""
        is_measured = region < RETRY_GROWTH_FACTOR * self.measured
        share = self.share if is_measured else min(self.share, _INITIAL_SEGMENT_SHARE)
        return int(region * share)

    def after_vain_try(self, inputs: CostInputs, decision: CompactionDecision) -> "CompactionState":
        """The state after a try that is not due by the size of its segment."""
        is_vain = decision.reason is CompactionReason.NO_PROGRESS
        failed = inputs.region if is_vain else self.failed
        state = self.with_segment(inputs.region, inputs.segment)
        return msgspec.structs.replace(state, decision=decision, failed=failed)


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
        self.segments: SegmentCache = SegmentCache(conversations, max_bytes)
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
