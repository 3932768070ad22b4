"""How the messages that are not folded are sent: results told shorter, what was folded recalled.

A message once said is said the same way until the next fold.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from compaction.reading.findings import Find, afresh
from compaction.reading.message import Count, Voice
from compaction.reading.read import weighed
from compaction.recall import appended, names, sources
from compaction.results.same import stamp
from compaction.results.trim import trimmed
from compaction.talk import Talk

#: Names of one message, and of all between two folds, that are looked up in what was folded: each
#: may take as long as there are messages.
_NAMES: Final = 32
_ASKED: Final = 256


class Said(msgspec.Struct, frozen=True):
    """A message that is sent otherwise than it came.

    Attributes:
        raw: Its JSON as it is sent.
        tokens: What that weighs.
    """

    raw: bytes
    tokens: int


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The messages from the last cut to a point.

    Attributes:
        start: Where it begins: the first message that is not folded.
        end: Where the point is.
        said: The messages that are sent otherwise than they came, in order.
        seen: The calls whose results stand in it, by the stamps of their texts.
        asked: Names in it that were looked up in what was folded.
        tokens: What all of it weighs as it is sent.
    """

    start: int
    end: int
    said: dict[int, Said] = {}
    seen: dict[bytes, str] = {}
    asked: int = 0
    tokens: int = 0

    def weight(self, talk: Talk, start: int) -> int:
        """Tokens from a message on, as they are sent."""
        less = 0
        for at in reversed(self.said):
            if at < start:
                break
            less += talk.messages[at].tokens - self.said[at].tokens
        return talk.weight(start, self.end) - less

    def raws(self, talk: Talk) -> list[bytes]:
        """Each message as it is sent."""
        return [
            self.said[at].raw if at in self.said else talk.messages[at].raw
            for at in range(self.start, self.end)
        ]


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before a tail.

    Attributes:
        text: All that is sent before it; asked for only where that matters.
        above: Tokens of the tail up to which results are not told shorter.
    """

    text: Callable[[], str] = str
    above: int = 0


_ALONE: Final = Before()


def grown(
    talk: Talk, tail: Tail, end: int, count: Count, before: Before = _ALONE, *, find: Find = afresh
) -> Tail:
    """The tail with the messages up to a later point.

    Args:
        talk: The conversation.
        tail: As it was.
        end: The point.
        count: How tokens are counted.
        before: What stands before it.
        find: What is found in its texts.
    """
    said, seen = dict(tail.said), dict(tail.seen)
    asked, tokens = tail.asked, tail.tokens
    for at in range(tail.end, end):
        message = talk.messages[at]
        raw = message.raw
        if message.voice is Voice.RESULT:
            raw = trimmed(message, seen, find)
            if message.whole:
                seen.setdefault(stamp(message.text), talk.call(at))
        elif message.voice is Voice.USER and tail.start > talk.lead:
            wanted = names(message, min(_NAMES, _ASKED - asked), find)
            asked += len(wanted)
            raw = _recalled(talk, Tail(start=tail.start, end=at, said=said), wanted, before)
        weighs = message.tokens if raw is message.raw else weighed(raw, count)
        if message.voice is Voice.RESULT and tokens + weighs < before.above:
            raw, weighs = message.raw, message.tokens
        if raw is not message.raw:
            said[at] = Said(raw, weighs)
        tokens += weighs
    return Tail(start=tail.start, end=end, said=said, seen=seen, asked=asked, tokens=tokens)


def _recalled(talk: Talk, tail: Tail, wanted: Sequence[str], before: Before) -> bytes:
    """The message behind a tail, with the sources of what it names and nothing sent holds."""
    raw = talk.messages[tail.end].raw
    if not wanted:
        return raw
    folded = before.text()
    missing = [name for name in wanted if name not in folded]
    since = talk.words(tail.start, tail.end) if missing else ""
    told = [each.raw for each in tail.said.values()] if missing else []
    missing = [
        name
        for name in missing
        if name not in since and not any(name.encode() in each for each in told)
    ]
    text = sources(talk, missing, tail.start) if missing else ""
    return appended(raw, text) if text else raw
