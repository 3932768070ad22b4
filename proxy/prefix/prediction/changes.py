"""What a call has in common with the one before it, and where the two part.

Of each call only short fingerprints stay, of tools, of leading texts and their lines, and of the
messages; the words are gone.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from proxy.prefix.prediction.sent import PRINTS, SHORT, Sent, parted
from proxy.prefix.prompts.recent import Recent

#: Bytes of a trace besides its fingerprints.
_FIXED: Final = 1_000


class How(StrEnum):
    """What became of a piece of prompt."""

    MOVED = "moved"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Where a prompt first differs from the one before it.

    Attributes:
        place: Where that is, such as ``tools[3]``, ``system line 4`` or ``messages[7]``.
        how: What happened there.
        block: Index of the block, in the prompt that is sent; None where nothing is left there.
        line: Index of the line within the block; None for all of it.
        dropped: How many messages of the conversation are gone.
    """

    place: str
    how: How
    block: int | None = None
    line: int | None = None
    dropped: int = 0


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What stays of a call.

    Attributes:
        at: When it was sent.
        conversation: Which it belonged to.
        place: Whose cache it met, and where.
        early: What shaped its whole prefix besides the blocks, by name.
        late: What shaped its messages only.
        tools: Short fingerprints of its tools, joined.
        heads: The same of its leading texts.
        lines: The same of the lines of each leading text.
        talk: The same of the messages that a later call may repeat.
    """

    at: float
    conversation: bytes
    place: bytes
    early: Mapping[str, bytes]
    late: Mapping[str, bytes]
    tools: bytes
    heads: bytes
    lines: tuple[bytes, ...]
    talk: bytes

    def same(self, sent: Sent) -> bool:
        """True if the call goes on with this one's conversation."""
        return bool(sent.conversation) and self.conversation == sent.conversation

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        prints = len(self.tools) + len(self.heads) + len(self.talk)
        return _FIXED + prints + sum(len(each) + 50 for each in self.lines)


class Traces:
    """The last call of each conversation and of each feature.

    Args:
        room: Bytes for all of them, about; the longest unused go first.
    """

    def __init__(self, room: int = 16 * 2**20) -> None:
        self._last: Recent[bytes, Trace] = Recent(room, lambda trace: trace.size)

    def __len__(self) -> int:
        return len(self._last)

    def before(self, sent: Sent) -> Trace | None:
        """The last call of its conversation; else of its feature; None where there was none."""
        own = self._last.peek(_own(sent)) if sent.conversation else None
        return own or self._last.peek(_feature(sent))

    def note(self, sent: Sent, now: float) -> None:
        """Remember a call that was sent."""
        found = (_own(sent), _feature(sent)) if sent.conversation else (_feature(sent),)
        self._last.put_all(found, traced(sent, now))


def traced(sent: Sent, now: float) -> Trace:
    """What stays of a call."""
    tools, heads, talk = sent.prints
    texts = sent.stretches.heads[:PRINTS]
    room = _room(texts)
    known = [sent.lines.get(at) for at in texts]
    return Trace(
        at=now,
        conversation=sent.conversation,
        place=sent.place,
        early=sent.early,
        late=sent.late,
        tools=tools,
        heads=heads,
        lines=tuple(each.digests[: room * SHORT] if each else b"" for each in known),
        talk=talk,
    )


def repeated(sent: Sent, before: Trace) -> int:
    """Bytes of the call that the one before it held too, wherever they stood.

    Of another conversation than its own only tools and leading texts count.
    """
    which, (tools, heads, talk) = sent.stretches, sent.prints
    size = _kept(sent, which.tools, tools, before.tools)
    if before.same(sent):
        size += _kept(sent, which.talk, talk, before.talk)
    if heads == before.heads:
        return size + sent.ends[which.heads.stop] - sent.ends[which.heads.start]
    known = set(parted(before.heads))
    lines = {each for joined in before.lines for each in parted(joined)}
    room = _room(which.heads)
    for at in which.heads:
        whole = sent.blocks[at].digest[:SHORT] in known
        size += sent.blocks[at].size if whole else _common(sent, at, lines, room)
    return size


def change(sent: Sent, before: Trace) -> Change | None:
    """Where the call first differs from the one before it; None where it only goes on."""
    which, (ours, texts, _) = sent.stretches, sent.prints
    tools = _first(ours, before.tools)
    if tools is not None:
        at, how = tools
        return Change(place=f"tools[{at}]", how=how, block=_within(which.tools, at))
    heads = _first(texts, before.heads)
    if heads is not None:
        return _head(sent, before, *heads)
    return _talk(sent, before) if before.same(sent) else None


def _head(sent: Sent, before: Trace, at: int, how: How) -> Change:
    heads = sent.stretches.heads
    block = _within(heads, at)
    role = sent.blocks[heads[min(at, len(heads) - 1)]].role if heads else "system"
    place = f"{role}[{at}]" if max(len(heads), len(before.lines)) > 1 else role
    lines = sent.lines.get(block) if block is not None else None
    if how is How.CHANGED and lines and at < len(before.lines):
        first = _first(lines.digests, before.lines[at])
        if first is not None:
            line, how = first
            return Change(place=f"{place} line {line + 1}", how=how, block=block, line=line)
    return Change(place=place, how=how, block=block)


def _talk(sent: Sent, before: Trace) -> Change | None:
    talk, ours = sent.stretches.talk, sent.prints[2]
    first = _first(ours, before.talk)
    if first is None or first[0] * SHORT >= len(before.talk):
        return None
    at, how = first
    block = _within(talk, at)
    if block is not None:
        message = sent.blocks[block].message
    else:
        message = max((each.message for each in sent.blocks), default=-1) + 1
    return Change(
        place=f"messages[{message}]", how=how, block=block, dropped=_dropped(ours, before.talk)
    )


def _dropped(ours: bytes, theirs: bytes) -> int:
    """Number of different prints are gone; the last may stand beyond what is kept of ours."""
    here, there = frozenset(parted(ours)), parted(theirs)
    while there and len(ours) == PRINTS * SHORT and there[-1] not in here:
        there.pop()
    return len(here.union(there)) - len(here)


def _first(ours: bytes, theirs: bytes) -> tuple[int, How] | None:
    """The first place where two lists of prints differ, and what happened there; None for none."""
    at = _same(ours, theirs)
    here, there = parted(ours[at * SHORT :]), parted(theirs[at * SHORT :])
    if here and there:
        return at, _how(here[0] in there, there[0] in here)
    if here or there:
        return at, How.ADDED if here else How.REMOVED
    return None


def _same(ours: bytes, theirs: bytes) -> int:
    """Number of prints both lists begin with."""
    high = min(len(ours), len(theirs)) // SHORT
    if ours[: high * SHORT] == theirs[: high * SHORT]:
        return high
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if ours[low * SHORT : middle * SHORT] == theirs[low * SHORT : middle * SHORT]:
            low = middle
        else:
            high = middle
    return low


def _how(ours_was_there: bool, theirs_is_here: bool) -> How:  # noqa: FBT001 - a table of two
    if ours_was_there:
        return How.MOVED if theirs_is_here else How.REMOVED
    return How.ADDED if theirs_is_here else How.CHANGED


def _room(texts: range) -> int:
    """Number of lines of each leading text are compared; ``PRINTS`` of them all, or one of each."""
    return PRINTS // max(1, len(texts)) or 1


def _common(sent: Sent, at: int, lines: set[bytes], room: int) -> int:
    """Bytes of a leading text whose lines were there before, as part of its block."""
    ours = sent.lines.get(at)
    if ours is None:
        return 0
    digests = parted(ours.digests[: room * SHORT])
    same = sum(size for size, each in zip(ours.sizes, digests, strict=False) if each in lines)
    return same * sent.blocks[at].size // ours.size if same else 0


def _kept(sent: Sent, which: range, ours: bytes, before: bytes) -> int:
    """Bytes of blocks that were there before, each as often as it was; of ``PRINTS`` blocks."""
    same = _same(ours, before)
    size = sent.ends[which.start + same] - sent.ends[which.start]
    left = Counter(parted(before[same * SHORT :]))
    rest = which[same:PRINTS] if left else range(0)
    for block in sent.blocks[rest.start : rest.stop]:
        digest = block.digest[:SHORT]
        if left.get(digest, 0) > 0:
            left[digest] -= 1
            size += block.size
    return size


def _within(which: range, at: int) -> int | None:
    return which[at] if at < len(which) else None


def _own(sent: Sent) -> bytes:
    return b"c" + sent.conversation


def _feature(sent: Sent) -> bytes:
    return b"f" + sent.feature
