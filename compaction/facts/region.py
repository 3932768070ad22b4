"""The part of a conversation that is to be folded, and what is known beside it."""

import msgspec

from compaction.facts.segment import Segment
from compaction.reading.message import Message
from compaction.reading.turns import Unit


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """Messages ``start`` to ``end`` of a conversation.

    Attributes:
        messages: The whole conversation up to now.
        units: It in its units.
        start: The first message folded.
        end: The first that is not.
        part: Which segment of the conversation it becomes, from 1.
        held: Messages within that stay messages of their own.
        earlier: The segments before it.
        notes: Lines that a small model found; they stand in a section of their own.
    """

    messages: tuple[Message, ...]
    units: tuple[Unit, ...]
    start: int
    end: int
    part: int = 1
    held: frozenset[int] = frozenset()
    earlier: tuple[Segment, ...] = ()
    notes: tuple[str, ...] = ()
