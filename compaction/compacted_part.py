"""A compacted part of a conversation, and its compaction to so many tokens."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from compaction.cost_model import CompactionReason
from compaction.facts.fact import FactKind, Region, Segment
from compaction.facts.message_worth import current_turns_start
from compaction.facts.segment_fitting import SegmentFitter
from compaction.reading.bounded_cache import BoundedCache
from compaction.reading.message import Voice
from compaction.reading.prefix_digests import DIGEST_BYTES

T = TypeVar("T", Segment, int)

#: Segments, and their likely sizes, by what they are made from.
SegmentCache = BoundedCache[tuple[object, ...], Any]

#: Kinds of facts that later segments do not say again, or refer to.
_REFERRED_TO: Final = frozenset({FactKind.ACTION, FactKind.RECORD, FactKind.COMMAND, FactKind.FILE})
#: Bytes of a segment beside its texts, of a fact beside its text, and of a character.
_SEGMENT_BYTES, _FACT_BYTES, _LETTER_BYTES = 500, 200, 4

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
        key: Equal for parts with equal segments.
        segments: Segments that were made before.
        at: The point where that is decided.
        kept: As in ``CompactedPart``.
        index: As there.
        beside: Tokens of the messages that are kept, and of the index.
        sent_tokens: Tokens of the part as it was sent last.
    """

    fitter: SegmentFitter
    key: tuple[object, ...]
    segments: SegmentCache
    at: int
    kept: tuple[int, ...]
    index: str
    beside: int
    sent_tokens: int

    def likely_tokens(self) -> int:
        """The tokens of the part where there is no target, about."""
        likely = self._make_once(SegmentFitter.likely_tokens, self._room)
        return likely + self.beside + _MESSAGE_TOKENS

    def part(self) -> CompactedPart:
        """The part where there is no target."""
        return self._part_of(self._make_once(SegmentFitter.segment_without_target, self._room))

    def part_within(self, max_tokens: int) -> CompactedPart:
        """The part in at most so many tokens."""
        segment_tokens = max(1, max_tokens - self.beside - _MESSAGE_TOKENS)
        return self._part_of(self._make_once(SegmentFitter.segment_within, segment_tokens))

    def _make_once(self, make: Callable[[SegmentFitter, int], T], tokens: int) -> T:
        """A segment, or its size, as it was made before."""
        key = (*self.key, make, tokens)
        made: T | None = self.segments.get(key)
        if made is None:
            made = make(self.fitter, tokens)
            self.segments.store(key, made, _made_bytes(made))
        return made

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


def region_digest(region: Region) -> bytes:
    """A digest that is equal for regions of equal segments, whatever was said before them.

    Of earlier segments it holds what later ones refer to; of earlier messages the last turns, which
    tell what records are needed next.
    """
    messages, start, end = region.messages, region.start, region.end
    near_start = min(start, current_turns_start(region) or start)
    near = messages[near_start : max(end, region.point) + 1]
    earlier = [
        (
            segment.text.partition("\n")[0],
            [
                (fact.text, fact.key, fact.turns, [messages[one].digest for one in fact.messages])
                for fact in segment.facts
                if fact.kind in _REFERRED_TO
            ],
        )
        for segment in region.earlier
    ]
    users_texts = [one.text.strip() for one in messages[:start] if one.voice is Voice.USER]
    contents = msgspec.msgpack.encode(
        (
            (start, end, region.point, len(users_texts), any(users_texts), sorted(region.kept)),
            [(message.digest, message.voice, message.tokens) for message in near],
            earlier,
        )
    )
    return blake2b(contents, digest_size=DIGEST_BYTES).digest()


def _made_bytes(made: Segment | int) -> int:
    """Bytes that a segment takes, about."""
    if isinstance(made, int):
        return _SEGMENT_BYTES
    chars = len(made.text) + sum(len(fact.text) for fact in made.facts)
    return _SEGMENT_BYTES + _LETTER_BYTES * chars + _FACT_BYTES * len(made.facts)
