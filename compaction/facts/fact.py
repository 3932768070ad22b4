"""One thing that later turns may need."""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What a fact is of."""

    RULE = "rule"  #: A standing wish of the user, in the user's own words.
    USER = "user"  #: What the user said, verbatim up to a cap.
    GOAL = "goal"  #: What it is all for, in the user's own words.
    ASKED = "asked"  #: What the assistant asked, where the user's answer says little without it.
    DECISION = "decision"  #: What the assistant settled on, and why.
    TODO = "todo"  #: What is still to be done.
    DONE = "done"  #: What was done.
    ACTION = "action"  #: A call that changed something, with its outcome: not to be repeated.
    RECORD = "record"  #: What a tool gave back, its values still beside each other.
    FILE = "file"  #: A path, and what was done to it.
    COMMAND = "command"  #: A command and how it ended.
    ERROR = "error"  #: What went wrong, and what mended it where that is known.
    VALUE = "value"  #: Sentences whose ids, amounts or dates stand nowhere else; names of code.
    GONE = "gone"  #: Actions and results that do not stand here any more, by their tools.


class Fact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of a segment; no cycle can pass through it, so the collector need not look at it.

    Attributes:
        kind: What it is of.
        text: What it says, without line ends.
        turns: The turns it comes from, counted from 1 over the whole conversation.
        messages: The messages it comes from, counted from 0 over the caller's list.
        key: What it is about; a later fact of the same kind and key takes its place. "" for none.
        replaces: The turn of the earlier fact whose place it takes; 0 for none.
    """

    kind: Kind
    text: str
    turns: tuple[int, ...]
    messages: tuple[int, ...] = ()
    key: str = ""
    replaces: int = 0
