"""What a conversation is for: its first request."""

from collections.abc import Iterator
from typing import Final

from compaction.facts.fact import Fact, Kind
from compaction.facts.flat import flat
from compaction.facts.region_contents import Part
from compaction.reading.message import Voice

#: Characters of a request that stay.
_LONGEST: Final = 300


def goals(part: Part) -> Iterator[Fact]:
    """The beginning of the first user message of the conversation, if it is folded here."""
    region = part.region
    for at, message in enumerate(region.messages[: region.end]):
        if message.voice is Voice.USER and message.text.strip():
            if at >= region.start and at not in region.held:
                text = flat(message.text)[:_LONGEST].rstrip()
                yield Fact(kind=Kind.GOAL, text=text, turns=(part.turn(at),), messages=(at,))
            return
