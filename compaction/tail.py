"""How the messages that are not folded are sent: results told shorter, what was folded recalled.

A message once said is said the same way until the next fold.
"""

from collections.abc import Mapping

import msgspec

from compaction.reading.message import Count, Voice
from compaction.reading.read import read
from compaction.recall import recalled
from compaction.results.same import stamp
from compaction.results.trim import trimmed
from compaction.talk import Talk


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
        said: The messages that are sent otherwise than they came.
        seen: The calls whose results stand in it, by the stamps of their texts.
        tokens: What all of it weighs as it is sent.
    """

    start: int
    end: int
    said: Mapping[int, Said] = {}
    seen: Mapping[bytes, str] = {}
    tokens: int = 0

    def weight(self, talk: Talk, start: int) -> int:
        """Tokens from a message on, as they are sent."""
        less = sum(
            talk.messages[at].tokens - each.tokens for at, each in self.said.items() if at >= start
        )
        return talk.weight(start, self.end) - less

    def raws(self, talk: Talk) -> list[bytes]:
        """Each message as it is sent."""
        return [
            self.said[at].raw if at in self.said else talk.messages[at].raw
            for at in range(self.start, self.end)
        ]


def grown(talk: Talk, tail: Tail, end: int, folded: str, count: Count, *, above: int = 0) -> Tail:
    """The tail with the messages up to a later point.

    Args:
        talk: The conversation.
        tail: As it was.
        end: The point.
        folded: What is sent before it, as text; "" where nothing was folded.
        count: How tokens are counted.
        above: Tokens of the tail up to which results are not told shorter.
    """
    said, seen, tokens = dict(tail.said), dict(tail.seen), tail.tokens
    for at in range(tail.end, end):
        message = talk.messages[at]
        raw = message.raw
        if message.voice is Voice.RESULT:
            raw = trimmed(message, seen)
            seen.setdefault(stamp(message.text), talk.call(at))
        elif message.voice is Voice.USER and folded:
            raw = recalled(talk, at, tail.start, folded)
        weighs = message.tokens
        if raw is not message.raw:
            weighs = read(raw, count).tokens
            if message.voice is Voice.RESULT and tokens + weighs < above:
                weighs = message.tokens
            else:
                said[at] = Said(raw, weighs)
        tokens += weighs
    return Tail(start=tail.start, end=end, said=said, seen=seen, tokens=tokens)
