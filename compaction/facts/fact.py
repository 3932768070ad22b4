"""A fact that later turns may need, its segment, and the region that the segment replaces."""

from enum import StrEnum
from typing import Final

import msgspec

from compaction.reading.message import ParsedMessage
from compaction.reading.turns import MessageUnit

#: Separates a call, its result and its outcome.
ARROW: Final = " → "
#: The outcome of an action that succeeded.
OK: Final = "ok"


class FactKind(StrEnum):
    """The kind of a fact."""

    RULE = "rule"  #: A standing instruction of the user, in the user's own words.
    USER = "user"  #: What the user said, verbatim up to a cap.
    GOAL = "goal"  #: What it is all for, in the user's own words.
    REPLY = "reply"  #: What the assistant said to the user.
    ACTION = "action"  #: A call that changed something, with its outcome: not to be repeated.
    RECORD = "record"  #: What a tool gave back, its values still beside each other.
    FILE = "file"  #: A path, and what was done to it.
    SLICE = "slice"  #: Lines of a file as they were seen last, with later edits made.
    COMMAND = "command"  #: A command and how it ended.
    ERROR = "error"  #: What went wrong, and what fixed it where that is known.
    GONE = "gone"  #: Calls of which no line stands, by their tools.


class Fact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of a segment; no cycle can pass through it, so the collector need not look at it.

    Attributes:
        text: Text of the fact, without line ends.
        turns: The turns it comes from, counted from 1 over the whole conversation.
        messages: The messages it comes from, counted from 0 over the caller's list.
        key: Subject of the fact; a later fact of the same kind and key takes its place. "" for
            none.
        replaces: The turn of the earlier fact whose place it takes; 0 for none.
        quotes: True if it is a user's words with a text of another's, or what may be one, in them.
    """

    kind: FactKind
    text: str
    turns: tuple[int, ...]
    messages: tuple[int, ...] = ()
    key: str = ""
    replaces: int = 0
    quotes: bool = False

    @property
    def has_succeeded(self) -> bool:
        """True unless it is an action that failed, or whose outcome is unknown."""
        return self.kind is not FactKind.ACTION or self.text.endswith(f"{ARROW}{OK}")


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment: the facts that replace messages ``start`` to ``end`` of the caller's list.

    Attributes:
        start: The first message compacted.
        end: The first that is not.
        facts: Its lines.
        text: Text that is sent, byte for byte the same from then on.
        before: Tokens of its messages.
        simple_way: Name of the simple way that kept more than facts did; "" for facts.
    """

    start: int
    end: int
    facts: tuple[Fact, ...]
    text: str
    tokens: int
    before: int
    simple_way: str = ""


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """Messages ``start`` to ``end`` of a conversation.

    Attributes:
        messages: The whole conversation up to now.
        start: The first message compacted.
        end: The first that is not.
        point: The first message that is not known yet where this is decided.
        kept: Messages within that stay messages of their own.
        earlier: The segments before it.
    """

    messages: tuple[ParsedMessage, ...]
    units: tuple[MessageUnit, ...]
    start: int
    end: int
    point: int = 0
    kept: frozenset[int] = frozenset()
    earlier: tuple[Segment, ...] = ()
