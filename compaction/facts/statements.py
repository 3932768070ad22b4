"""What users said, in their own words."""

from collections.abc import Iterator
from typing import Final

from compaction.facts.fact import Fact, Kind
from compaction.facts.flat import ends, fitting, flat
from compaction.facts.region_contents import Part
from compaction.reading.message import Voice
from compaction.results.value_leaves import ids

#: Characters of a message that stay: about 2,000 tokens of English.
MOST: Final = 8_000
#: Characters of the name of who of several users speaks.
_NAME: Final = 64
#: Characters of the ids that are named of what was cut, at most.
_IDS: Final = 1_600


def users(part: Part, most: int = MOST, short: int = 0) -> Iterator[Fact]:
    """The words of each user message: all of them, or their beginning and end where they are long.

    Args:
        part: What is folded.
        most: Characters of one message that stay.
        short: Messages of so many characters stay whole even if that is more.
    """
    for at, message in part.spoken(Voice.USER):
        text = flat(message.text) if len(message.text) <= short else kept(message.text, most)
        if message.name and text:
            text = f"{flat(message.name)[:_NAME]}: {text}"
        if text:
            turn = part.turn(at)
            yield Fact(kind=Kind.USER, text=text, turns=(turn,), messages=(at,), key=str(turn))


def kept(text: str, most: int) -> str:
    """A message's words on one line; of a long one its ends, and the ids that were cut."""
    if len(text) <= most:
        return flat(text)
    first, last = ends(text, most)
    gone = text[first:last]
    named = " ".join(fitting(ids(gone), min(_IDS, most // 3)))
    cut = f"[… {len(gone)} characters cut{'; in them: ' if named else ''}{named} …]"
    return f"{flat(text[:first])} {cut} {flat(text[last:])}"
