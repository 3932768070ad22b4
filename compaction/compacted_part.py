"""A compacted part of a conversation, and its compaction to so many tokens."""

from typing import Final

import msgspec

from compaction.cost_model import CompactionReason
from compaction.facts.fact import Segment
from compaction.facts.segment_fitting import SegmentFitter

#: Tokens of an added message's envelope.
_MESSAGE_TOKENS: Final = 4


class CompactedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A compacted part of a conversation.

    Attributes:
        at: The point where that was decided.
        segment: Segment that is sent in its place.
        kept: Messages of the part that stay messages: those of authority, the request that was
            under way, and a user's that hold more than text.
        tokens: Tokens of segment and messages.
        reason: Reason for compacting it; None until that is decided.
        index: Text behind the segment that says how to recall what it stands for; "" for none.
    """

    at: int
    segment: Segment
    kept: tuple[int, ...]
    tokens: int
    reason: CompactionReason | None = None
    index: str = ""


class PartCompactor(msgspec.Struct, frozen=True, kw_only=True):
    """Compacts a part of a conversation, which is read once.

    Attributes:
        fitter: Makes its segments.
        at: The point where that is decided.
        kept: As in ``CompactedPart``.
        index: As there.
        beside: Tokens of the messages that are kept, and of the index.
        sent_tokens: Tokens of the part as it was sent last.
    """

    fitter: SegmentFitter
    at: int
    kept: tuple[int, ...]
    index: str
    beside: int
    sent_tokens: int

    def likely_tokens(self) -> int:
        """The tokens of the part where there is no target, about."""
        return self.fitter.likely_tokens(self._room) + self.beside + _MESSAGE_TOKENS

    def part(self) -> CompactedPart:
        """The part where there is no target."""
        return self._part_of(self.fitter.segment_without_target(self._room))

    def part_within(self, max_tokens: int) -> CompactedPart:
        """The part in at most so many tokens."""
        segment_tokens = max(1, max_tokens - self.beside - _MESSAGE_TOKENS)
        return self._part_of(self.fitter.segment_within(segment_tokens))

    @property
    def _room(self) -> int:
        """Tokens of what the segment replaces, as they were sent last."""
        return self.sent_tokens - self.beside - _MESSAGE_TOKENS

    def _part_of(self, segment: Segment) -> CompactedPart:
        return CompactedPart(
            at=self.at,
            segment=segment,
            kept=self.kept,
            tokens=segment.tokens + self.beside + _MESSAGE_TOKENS,
            index=self.index,
        )
