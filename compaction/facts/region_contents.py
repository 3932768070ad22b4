"""A region read once: who said what in it, and which result answers which call."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final

import msgspec

from compaction.facts.call_lines import changes, same
from compaction.facts.done import is_done
from compaction.facts.region import Region
from compaction.reading.message import Called, Message, Voice
from compaction.reading.redaction import redacted
from compaction.reading.text_analysis_cache import Find, afresh

#: A call without a name, for a result that answers none.
_UNASKED: Final = (Called(id="", name="", arguments=""), -1)

_start = attrgetter("start")


class Exchange(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A call and what came back.

    Attributes:
        called: The call; one without a name where a result answers none.
        result: What came back; "" for nothing.
        turn: The turn it is part of.
        messages: The messages of both.
    """

    called: Called
    result: str
    turn: int
    messages: tuple[int, ...]

    @cached_property
    def key(self) -> str:
        """What calls share that ask the same of the same tool; "" where it is not known."""
        return same(self.called)

    @cached_property
    def acts(self) -> bool:
        """True if it changed something: by its tool's name, or by what came back."""
        return changes(self.called) or is_done(self.result)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What a region holds.

    Attributes:
        region: It.
        turns: The turn of each of its messages, from the first on.
        exchanges: Its calls with their results, in the order in which they were answered.
        said: The messages that become part of the segment, by who speaks.
        find: What is found in its texts.
    """

    region: Region
    turns: tuple[int, ...]
    exchanges: tuple[Exchange, ...]
    said: Mapping[Voice, Sequence[tuple[int, Message]]]
    find: Find = afresh

    def spoken(self, voice: Voice) -> Sequence[tuple[int, Message]]:
        """The messages of a voice that become part of the segment, each with its index.

        Keys and passwords are taken out of all but the user's own words.
        """
        return self.said.get(voice, ())

    def turn(self, at: int) -> int:
        """The turn of a message of the region."""
        return self.turns[at - self.region.start]


def part(region: Region, find: Find = afresh) -> Part:
    """What a region holds, read once."""
    turns = _turns(region)
    said: dict[Voice, list[tuple[int, Message]]] = {}
    for at in range(region.start, region.end):
        message = region.messages[at]
        if at not in region.held:
            safe = message if message.voice is Voice.USER else _safe(message, find)
            said.setdefault(message.voice, []).append((at, safe))
    results = dict(said.get(Voice.RESULT, ()))
    exchanges = tuple(_exchanges(region, turns, results))
    return Part(region=region, turns=turns, exchanges=exchanges, said=said, find=find)


def _safe(message: Message, find: Find) -> Message:
    """The message without keys and passwords."""
    text = find(redacted, message.text)
    return message if text == message.text else msgspec.structs.replace(message, text=text)


def _turns(region: Region) -> tuple[int, ...]:
    """The turn of each message of a region."""
    turns = [0] * (region.end - region.start)
    units = region.units
    first = max(bisect_right(units, region.start, key=_start) - 1, 0)
    for unit in units[first : bisect_left(units, region.end, key=_start)]:
        for at in range(max(unit.start, region.start), min(unit.end, region.end)):
            turns[at - region.start] = unit.turn
    return tuple(turns)


def _exchanges(
    region: Region, turns: tuple[int, ...], results: Mapping[int, Message]
) -> Iterator[Exchange]:
    """Calls with their results; then those that nothing answered."""
    asked: dict[str, tuple[Called, int]] = {}
    for at in range(region.start, region.end):
        message = region.messages[at]
        if at in region.held:
            continue
        asked |= {called.id: (called, at) for called in message.calls}
        if message.voice is Voice.RESULT:
            called, where = asked.pop(message.answers, _UNASKED)
            yield Exchange(
                called=called,
                result=results[at].text,
                turn=turns[at - region.start],
                messages=(at,) if where < 0 else (where, at),
            )
    for called, at in asked.values():
        yield Exchange(called=called, result="", turn=turns[at - region.start], messages=(at,))
