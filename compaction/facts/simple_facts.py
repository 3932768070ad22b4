"""Facts made the simple ways: the yardstick of a segment, and its content where they keep more."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from compaction.facts.call_lines import call_line
from compaction.facts.fact import ARROW, Fact, FactKind
from compaction.facts.region_contents import RegionContents
from compaction.facts.rendering import flatten_text
from compaction.reading.message import ParsedMessage, Voice
from compaction.simple_ways import SIMPLE_WAYS
from compaction.word_worth import RegionWords, text_size, worth_of_pieces

#: Maximum characters of an argument of a call beside its cropped result.
_MAX_ARGUMENT_CHARS: Final = 100
_KINDS: Final = {Voice.USER: FactKind.USER, Voice.ASSISTANT: FactKind.REPLY}


class SimpleResult(msgspec.Struct, frozen=True, gc=False):
    """The best that a simple way keeps.

    Attributes:
        way: Its name.
        pieces: The text that stands of each message, with the message's index.
        worth: The worth of the pieces.
    """

    way: str
    pieces: tuple[tuple[int, str], ...]
    worth: float


def best_simple_way(
    part: RegionContents,
    words: RegionWords,
    factors: Mapping[int, float],
    max_tokens: int,
    region_tokens: int,
) -> SimpleResult:
    """The simple way that keeps what is worth most in so many tokens.

    Args:
        part: Part that is compacted.
        words: Worth of its words.
        factors: Factors of its messages.
        max_tokens: Tokens of the text that stands.
        region_tokens: Tokens of the whole part: all texts are taken to be as dense.
    """
    indexed = _messages(part)
    messages = [message for _, message in indexed]
    sizes = sum(text_size(message.text) for message in messages)
    per_char = region_tokens / max(1, sizes)

    def count(text: str) -> int:
        return int(text_size(text) * per_char)

    results = []
    for name, way in SIMPLE_WAYS.items():
        texts = way(messages, max_tokens, count)
        pieces = tuple(
            [(index, text) for (index, _), text in zip(indexed, texts, strict=True) if text]
        )
        worth = worth_of_pieces(words, factors, pieces)
        results.append(SimpleResult(name, pieces, worth))
    return max(results, key=lambda result: result.worth)


def simple_facts(part: RegionContents, pieces: Sequence[tuple[int, str]]) -> Iterator[Fact]:
    """The pieces that a simple way keeps as facts, each by its speaker."""
    exchanges = {exchange.messages[-1]: exchange for exchange in part.exchanges}
    for index, text in pieces:
        voice = part.region.messages[index].voice
        line = flatten_text(text)
        if voice is Voice.RESULT:
            called = exchanges[index].called
            call = call_line(called, _MAX_ARGUMENT_CHARS) if called.name else "result"
            line = f"{call}{ARROW}{line}"
        yield Fact(
            kind=_KINDS.get(voice, FactKind.RECORD),
            text=line,
            turns=(part.turn_of(index),),
            messages=(index,),
        )


def _messages(part: RegionContents) -> Sequence[tuple[int, ParsedMessage]]:
    """The messages that become part of the segment, in order."""
    return sorted(
        [pair for pairs in part.messages_by_voice.values() for pair in pairs],
        key=lambda pair: pair[0],
    )
