"""A part of a conversation, folded: what is sent in its place from then on."""

from enum import IntEnum

import msgspec

from compaction.facts.fact import Fact


class Rung(IntEnum):
    """How far a part is shortened; each keeps less than the one before."""

    FACTS = 1  #: Users' words, and facts with whole records.
    PRUNED = 2  #: Records by their telling columns: ids, amounts, dates, states.
    VALUES = 3  #: Users' words, and records by ids, amounts and dates.
    BARE = 4  #: What there is room for, by its worth; a record or action stands whole or goes.


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """What stands for messages ``start`` to ``end`` of the caller's list.

    Attributes:
        start: The first message folded.
        end: The first that is not.
        rung: How far it is shortened.
        facts: Its lines.
        text: What is sent, byte for byte, for ever.
        tokens: What that weighs.
        before: What its messages weighed.
    """

    start: int
    end: int
    rung: Rung
    facts: tuple[Fact, ...]
    text: str
    tokens: int
    before: int
